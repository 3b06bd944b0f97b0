//! Shapes of secrets as vendors document them, written in a form of their own and not derived from patterns.
//! Rules were added for shapes that were missed at first, so the list is no blind test of them.
//!
//! A shape is text with placeholders: `{A36}` thirty-six letters and digits, `a` small letters and digits, `h`
//! hexadecimal, `H` in capitals, `d` digits, `l` small letters, `U` capitals and digits, `w` letters, digits, `-` and
//! `_`, `b` base64, `B` base32, `{uuid}`, `{jwt}`, `{pem}`. What stands between `⟦` and `⟧` is the secret; without them
//! all of it is.

use crate::random_text::RandomText;

/// Name and shape.
pub const SHAPES: &[(&str, &str)] = &[
    ("anthropic api key", "sk-ant-api03-{w93}AA"),
    ("anthropic admin key", "sk-ant-admin01-{w93}AA"),
    ("anthropic oauth access token", "sk-ant-oat01-{w86}-{w6}AA"),
    ("anthropic oauth refresh token", "sk-ant-ort01-{w86}-{w6}AA"),
    ("openai project key", "sk-proj-{w74}T3BlbkFJ{w74}"),
    ("openai service account key", "sk-svcacct-{w74}T3BlbkFJ{w74}"),
    ("openai admin key", "sk-admin-{w58}T3BlbkFJ{w58}"),
    ("openai legacy key", "sk-{A20}T3BlbkFJ{A20}"),
    ("openai project key of 48", "sk-proj-{A48}"),
    ("google api key", "AIza{w35}"),
    ("google gemini key of 2026", "AQ.Ab8RN6{w44}"),
    ("google oauth client secret", "GOCSPX-{w28}"),
    ("google oauth access token", "ya29.a0{w160}"),
    ("google oauth refresh token", "1//0{d1}{w60}"),
    ("hugging face token", "hf_{A34}"),
    ("hugging face organisation token", "api_org_{A34}"),
    ("openrouter key", "sk-or-v1-{h64}"),
    ("groq key", "gsk_{A52}"),
    ("xai key", "xai-{A80}"),
    ("replicate token", "r8_{A37}"),
    ("perplexity key", "pplx-{A48}"),
    ("fireworks key", "fw_{A24}"),
    ("together key", "TOGETHER_API_KEY=⟦tgp_v1_{w43}⟧"),
    ("cerebras key", "csk-{a48}"),
    ("nvidia key", "nvapi-{w64}"),
    ("deepseek key", "DEEPSEEK_API_KEY=⟦sk-{h32}⟧"),
    ("mistral key", "MISTRAL_API_KEY=⟦{A32}⟧"),
    ("cohere key", "COHERE_API_KEY=⟦{A40}⟧"),
    ("moonshot key", "MOONSHOT_API_KEY=⟦sk-{A48}⟧"),
    ("zai key", "ZAI_API_KEY=⟦{h32}.{A16}⟧"),
    ("deepinfra key", "DEEPINFRA_TOKEN=⟦{A32}⟧"),
    ("voyage key", "VOYAGE_API_KEY=⟦pa-{w43}⟧"),
    ("jina key", "jina_{h32}{A32}"),
    ("elevenlabs key", "ELEVENLABS_API_KEY=⟦sk_{h48}⟧"),
    ("deepgram key", "DEEPGRAM_API_KEY=⟦{h40}⟧"),
    ("assemblyai key", "ASSEMBLYAI_API_KEY=⟦{h32}⟧"),
    ("stability key", "STABILITY_API_KEY=⟦sk-{A48}⟧"),
    ("tavily key", "tvly-{A32}"),
    ("tavily dev key", "tvly-dev-{A32}"),
    ("firecrawl key", "fc-{h32}"),
    ("exa key", "EXA_API_KEY=⟦{uuid}⟧"),
    ("brave search key", "BSA{w28}"),
    ("serpapi key", "SERPAPI_API_KEY=⟦{h64}⟧"),
    ("e2b key", "e2b_{h40}"),
    ("langsmith key", "lsv2_pt_{h32}_{h10}"),
    ("langsmith service key", "lsv2_sk_{h32}_{h10}"),
    ("langfuse key", "sk-lf-{uuid}"),
    ("helicone key", "sk-helicone-{a7}-{a7}-{a7}-{a7}"),
    ("pinecone key", "pcsk_{A5}_{A63}"),
    ("weights and biases key", "WANDB_API_KEY=⟦{h40}⟧"),
    ("cursor key", "crsr_{h64}"),
    ("azure openai key", "{A52}JQQJ99{A12}AC{A6}ACOG{A4}"),
    ("aws access key id", "AKIA{B16}"),
    ("aws temporary key id", "ASIA{B16}"),
    ("aws secret key in env", "AWS_SECRET_ACCESS_KEY=⟦{b40}⟧"),
    ("aws secret key in an ini file", "aws_secret_access_key = ⟦{b40}⟧"),
    ("aws secret key in json", "\"SecretAccessKey\": \"⟦{b40}⟧\""),
    ("aws session token", "AWS_SESSION_TOKEN=⟦IQoJb3JpZ2luX2Vj{b300}⟧"),
    ("aws bedrock key", "ABSK{b128}"),
    (
        "azure storage connection",
        "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=⟦{b86}==⟧;EndpointSuffix=core.windows.net",
    ),
    (
        "azure service bus",
        "Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=⟦{b43}=⟧",
    ),
    ("azure client secret", "{A3}8Q~{A34}"),
    (
        "azure sas",
        "https://acme.blob.core.windows.net/c/f?sv=2024-01-01&se=2030-01-01&sr=b&sig=⟦{A43}%3D⟧",
    ),
    ("azure devops token", "{A76}AZDO{A4}"),
    ("azure app configuration", "Endpoint=https://acme.azconfig.io;Id=abcd;Secret=⟦{b43}=⟧"),
    ("digitalocean token", "dop_v1_{h64}"),
    ("digitalocean oauth token", "doo_v1_{h64}"),
    ("cloudflare api token", "CLOUDFLARE_API_TOKEN=⟦{w40}⟧"),
    ("cloudflare global key", "CLOUDFLARE_API_KEY=⟦{h37}⟧"),
    ("cloudflare origin ca key", "v1.0-{h24}-{h146}"),
    ("cloudflare user token of 2026", "cfut_{A40}{h8}"),
    ("heroku key", "HEROKU_API_KEY=⟦{uuid}⟧"),
    ("heroku key v2", "HRKU-AA{w58}"),
    ("fly token", "FlyV1 fm2_{b200}"),
    ("render key", "rnd_{A28}"),
    ("railway token", "RAILWAY_TOKEN=⟦{uuid}⟧"),
    ("vercel token", "VERCEL_TOKEN=⟦{A24}⟧"),
    ("vercel personal token", "vcp_{A56}"),
    ("vercel blob token", "vercel_blob_rw_{A16}_{A30}"),
    ("netlify token", "nfp_{A36}"),
    ("supabase secret key", "sb_secret_{w22}_{w8}"),
    ("supabase management token", "sbp_{h40}"),
    ("supabase service role jwt", "SUPABASE_SERVICE_ROLE_KEY=⟦{jwt}⟧"),
    ("neon key", "napi_{a64}"),
    ("planetscale password", "pscale_pw_{w43}"),
    ("planetscale token", "pscale_tkn_{w43}"),
    ("upstash token", "UPSTASH_REDIS_REST_TOKEN=⟦AYNgAS{A50}⟧"),
    ("mongodb url", "mongodb+srv://app:⟦{A16}⟧@cluster0.ab1cd.mongodb.net/db"),
    ("postgres url", "postgresql://app:⟦{A20}⟧@db.acme.test:5432/app"),
    ("mysql url", "mysql://root:⟦{A14}⟧@10.0.0.5/app"),
    ("redis url", "rediss://default:⟦{A24}⟧@cache.acme.test:6379"),
    ("amqp url", "amqps://svc:⟦{A18}⟧@mq.acme.test/vhost"),
    ("git url with a token", "https://x-access-token:⟦ghs_{A36}⟧@github.com/acme/app.git"),
    ("git url with a password", "https://alice:⟦{A20}⟧@git.acme.test/app.git"),
    ("sentry dsn with its secret", "https://⟦{h32}:{h32}⟧@sentry.acme.test/42"),
    ("github personal token", "ghp_{A36}"),
    ("github oauth token", "gho_{A36}"),
    ("github user token", "ghu_{A36}"),
    ("github server token", "ghs_{A36}"),
    ("github refresh token", "ghr_{A76}"),
    ("github fine-grained token", "github_pat_{A22}_{A59}"),
    ("gitlab personal token", "glpat-{w20}"),
    ("gitlab routable token", "glpat-{w27}.01.{a9}"),
    ("gitlab deploy token", "gldt-{w20}"),
    ("gitlab runner token", "glrt-{w20}"),
    ("gitlab trigger token", "glptt-{h40}"),
    ("gitlab ci job token", "glcbt-64_{w20}"),
    ("gitlab feed token", "glft-{w20}"),
    ("gitlab agent token", "glagent-{w50}"),
    ("gitlab oauth secret", "gloas-{h64}"),
    ("gitlab scim token", "glsoat-{w20}"),
    ("bitbucket app password", "ATBB{A28}{H8}"),
    ("atlassian token", "ATATT3xFfGF0{w170}={H8}"),
    ("npm token", "npm_{A36}"),
    ("npmrc", "//registry.npmjs.org/:_authToken=⟦{uuid}⟧"),
    ("pypi token", "pypi-AgEIcHlwaS5vcmc{w150}"),
    ("rubygems key", "rubygems_{h48}"),
    ("crates.io token", "cio{A32}"),
    ("nuget key", "oy2{B1}"),
    ("docker hub token", "dckr_pat_{w27}"),
    ("docker hub organisation token", "dckr_oat_{w32}"),
    ("docker config", "{\"auths\":{\"ghcr.io\":{\"auth\":\"⟦{b48}⟧\"}}}"),
    ("clojars token", "CLOJARS_{h60}"),
    ("artifactory key", "AKCp{A69}"),
    ("artifactory reference token", "cmVmdGtu{A56}"),
    ("circleci token", "CCIPAT_{A22}_{h40}"),
    ("buildkite token", "bkua_{h40}"),
    ("drone token", "DRONECI_TOKEN=⟦{A32}⟧"),
    ("travis token", "TRAVIS_TOKEN=⟦{A22}⟧"),
    ("terraform cloud token", "{A14}.atlasv1.{w67}"),
    ("vault service token", "hvs.{w95}"),
    ("vault batch token", "hvb.{w150}"),
    ("doppler token", "dp.pt.{A43}"),
    ("doppler service token", "dp.st.prd.{A43}"),
    ("infisical token", "st.{h24}.{h32}.{h32}"),
    ("pulumi token", "pul-{h40}"),
    ("1password service token", "ops_eyJ{b400}"),
    ("1password secret key", "A3-{U6}-{U6}-{U5}-{U5}-{U5}-{U5}"),
    ("age key", "AGE-SECRET-KEY-1{age58}"),
    ("tailscale auth key", "tskey-auth-k{A11}CNTRL-{A32}"),
    ("tailscale api key", "tskey-api-k{A11}CNTRL-{A32}"),
    ("ngrok token", "NGROK_AUTHTOKEN=⟦2{A26}_{d1}{A20}⟧"),
    ("databricks token", "dapi{h32}"),
    ("snowflake token", "SNOWFLAKE_TOKEN=⟦{w200}⟧"),
    ("confluent key", "CONFLUENT_SECRET=⟦{A64}⟧"),
    ("datadog key", "DATADOG_API_KEY=⟦{h32}⟧"),
    ("datadog short name", "DD_API_KEY=⟦{h32}⟧"),
    ("datadog application key", "DD_APP_KEY=⟦{h40}⟧"),
    ("new relic user key", "NRAK-{U27}"),
    ("new relic license key", "{h36}NRAL"),
    ("grafana service account", "glsa_{A32}_{h8}"),
    ("grafana cloud token", "glc_{b80}"),
    ("sentry organisation token", "sntrys_eyJpYXQiOjE{b40}LCJyZWdpb25fdXJs{b40}_{b43}"),
    ("sentry user token", "sntryu_{h64}"),
    ("honeycomb key", "HONEYCOMB_API_KEY=⟦{A22}⟧"),
    ("dynatrace token", "dt0c01.{U24}.{U64}"),
    ("sonar token", "SONAR_TOKEN=⟦sqp_{h40}⟧"),
    ("snyk token", "SNYK_TOKEN=⟦{uuid}⟧"),
    ("codecov token", "CODECOV_TOKEN=⟦{uuid}⟧"),
    ("launchdarkly sdk key", "sdk-{uuid}"),
    ("launchdarkly api key", "api-{uuid}"),
    ("posthog personal key", "phx_{A43}"),
    ("segment token", "sgp_{A64}"),
    ("mixpanel secret", "MIXPANEL_API_SECRET=⟦{h32}⟧"),
    ("algolia key", "ALGOLIA_ADMIN_KEY=⟦{h32}⟧"),
    ("mapbox secret", "sk.eyJ{w90}.{w22}"),
    ("stripe live key", "sk_live_{A24}"),
    ("stripe long key", "sk_live_51{A97}"),
    ("stripe test key", "sk_test_{A24}"),
    ("stripe restricted key", "rk_live_{A24}"),
    ("stripe webhook secret", "whsec_{A32}"),
    ("square token", "EAAA{w60}"),
    ("square oauth secret", "sq0csp-{w43}"),
    ("paypal braintree token", "access_token$production${a16}${h32}"),
    ("plaid token", "PLAID_ACCESS_TOKEN=⟦access-production-{uuid}⟧"),
    ("razorpay secret", "RAZORPAY_KEY_SECRET=⟦{A24}⟧"),
    ("shopify admin token", "shpat_{h32}"),
    ("shopify shared secret", "shpss_{h32}"),
    ("coinbase key", "COINBASE_API_KEY=⟦{A64}⟧"),
    ("twilio auth token", "TWILIO_AUTH_TOKEN=⟦{h32}⟧"),
    ("twilio api key", "TWILIO_API_KEY_SID=⟦SK{h32}⟧"),
    ("sendgrid key", "SG.{w22}.{w43}"),
    ("mailgun key", "key-{h32}"),
    ("mailchimp key", "{h32}-us14"),
    ("postmark token", "POSTMARK_SERVER_TOKEN=⟦{uuid}⟧"),
    ("resend key", "re_{58_8}_{58_24}"),
    ("brevo key", "xkeysib-{h64}-{A16}"),
    ("slack bot token", "xoxb-{d12}-{d13}-{A24}"),
    ("slack user token", "xoxp-{d12}-{d12}-{d13}-{h32}"),
    ("slack app token", "xapp-1-A{U10}-{d13}-{h64}"),
    ("slack refresh token", "xoxe-1-{A146}"),
    ("slack webhook", "https://hooks.slack.com/⟦services/T{U10}/B{U10}/{A24}⟧"),
    ("discord bot token", "DISCORD_TOKEN=⟦M{A25}.{A6}.{w38}⟧"),
    ("discord webhook", "https://discord.com/api/webhooks/⟦{snow}/{w68}⟧"),
    ("telegram bot token", "{tgid}:AA{w33}"),
    (
        "teams webhook",
        "https://acme.webhook.office.com/webhookb2/⟦{uuid}@{uuid}/IncomingWebhook/{h32}/{uuid}⟧",
    ),
    ("linear key", "lin_api_{A40}"),
    ("linear oauth token", "lin_oauth_{h64}"),
    ("notion token", "ntn_{d11}{A35}"),
    ("notion legacy token", "secret_{A43}"),
    ("airtable token", "pat{A14}.{h64}"),
    ("asana token", "1/1{d15}:{h32}"),
    ("figma token", "figd_{w40}"),
    ("postman key", "PMAK-{h24}-{h34}"),
    ("readme key", "rdme_{a70}"),
    ("typeform token", "TYPEFORM_TOKEN=⟦tfp_{w44}_{A14}⟧"),
    ("hubspot private app token", "HUBSPOT_TOKEN=⟦pat-na1-{uuid}⟧"),
    ("salesforce token", "salesforce.com session ⟦00D{A12}!{A96}⟧"),
    ("facebook token", "EAAC{A180}"),
    ("twitter bearer", "TWITTER_BEARER_TOKEN=⟦AAAAAAAAAAAAAAAAAAAAAA{A90}⟧"),
    ("jwt", "{jwt}"),
    ("bearer header", "Authorization: Bearer ⟦{A40}⟧"),
    ("basic header", "Authorization: Basic ⟦{b40}⟧"),
    ("api key header", "x-api-key: ⟦{A40}⟧"),
    ("gitlab header", "PRIVATE-TOKEN: ⟦{w24}⟧"),
    ("curl user", "curl -s -u deploy:⟦{A18}⟧ https://acme.test/api"),
    ("pgpassword", "PGPASSWORD=⟦{A16}⟧ psql -h db"),
    ("sshpass", "sshpass -p ⟦{A12}⟧ ssh root@host"),
    ("netrc", "machine api.acme.test login deploy password ⟦{A20}⟧"),
    ("pem rsa key", "{pem:RSA PRIVATE KEY}"),
    ("pem key", "{pem:PRIVATE KEY}"),
    ("openssh key", "{pem:OPENSSH PRIVATE KEY}"),
    ("ec key", "{pem:EC PRIVATE KEY}"),
    ("pgp key", "{pem:PGP PRIVATE KEY BLOCK}"),
    ("jwk", "{\"kty\":\"EC\",\"crv\":\"P-256\",\"d\":\"⟦{w43}⟧\"}"),
    ("wireguard key", "PrivateKey = ⟦{b42}A=⟧"),
    ("ethereum key", "PRIVATE_KEY=⟦0x{h64}⟧"),
    ("laravel app key", "APP_KEY=⟦base64:{b43}=⟧"),
    ("openshift token", "sha256~{w43}"),
    ("docker swarm token", "SWMTKN-1-{a50}-{a25}"),
    ("scaleway secret", "SCW_SECRET_KEY=⟦{uuid}⟧"),
    ("alibaba key id", "LTAI5t{A18}"),
    ("yandex key", "YANDEX_API_KEY=⟦AQVN{w36}⟧"),
    ("flutterwave key", "FLWSECK_TEST-{h32}-X"),
    ("easypost key", "EZAK{A54}"),
    ("duffel token", "duffel_live_{w43}"),
    ("frame.io token", "fio-u-{w64}"),
    ("shippo token", "shippo_live_{h40}"),
    ("prefect token", "pnu_{A36}"),
    ("apify token", "apify_api_{A36}"),
    ("sourcegraph token", "sgp_{h40}"),
    ("harness key", "pat.{A22}.{h24}.{A20}"),
    ("onesignal key", "os_v2_app_{B103l}"),
    ("signed aws url", "https://acme.s3.amazonaws.com/f?X-Amz-Expires=600&X-Amz-Signature=⟦{h64}⟧"),
    ("key in a query", "https://maps.acme.test/geo?q=berlin&key=⟦{A39}⟧"),
];

/// A text with a secret of this shape, and where the secret stands in it.
pub fn plant(shape: &str, random: &mut RandomText) -> (String, std::ops::Range<usize>) {
    let mut text = String::new();
    let (mut start, mut end) = (0, None);
    let mut rest = shape;
    while let Some(character) = rest.chars().next() {
        match character {
            '⟦' => start = text.len(),
            '⟧' => end = Some(text.len()),
            '{' => {
                if let Some((field, after)) = rest[1..].split_once('}')
                    && let Some(value) = expand(field, random)
                {
                    text.push_str(&value);
                    rest = after;
                    continue;
                }
                text.push('{');
            }
            other => text.push(other),
        }
        rest = &rest[character.len_utf8()..];
    }
    let end = end.filter(|end| *end > start).unwrap_or(text.len());
    (text, start..end)
}

fn expand(field: &str, random: &mut RandomText) -> Option<String> {
    const ALNUM: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    if let Some(label) = field.strip_prefix("pem:") {
        let lines: Vec<String> = (0..12).map(|_| random.base64(64)).collect();
        return Some(format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----",
            lines.join("\n")
        ));
    }
    match field {
        "uuid" => return Some(random.uuid()),
        "jwt" => {
            let head = random.draw(ALNUM, 30);
            let body = random.draw(ALNUM, 120);
            return Some(format!("eyJhbGciOi{head}.eyJ{body}.{}", random.draw(ALNUM, 43)));
        }
        "age58" => return Some(random.draw(b"QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
        "58_8" => {
            return Some(
                random.draw(b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", 8),
            );
        }
        "58_24" => {
            return Some(
                random.draw(b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", 24),
            );
        }
        "snow" => return Some(format!("1{}", random.draw(b"0123456789", 18))),
        "tgid" => return Some(format!("7{}", random.draw(b"0123456789", 9))),
        "B1" => {
            let (one, two) = (
                random.draw(b"abcdefghijklmnop", 1),
                random.draw(b"abcdefghijklmnopqrstuvwxyz234567", 15),
            );
            let three = random.draw(b"abcdefghijklmnopqrstuvwxyz234567", 25);
            return Some(format!("{one}{two}a{three}e"));
        }
        "B103l" => return Some(random.draw(b"abcdefghijklmnopqrstuvwxyz234567", 103)),
        _ => {}
    }
    let length: usize = field.get(1..)?.parse().ok()?;
    let set: &[u8] = match field.as_bytes()[0] {
        b'A' => ALNUM,
        b'a' => b"abcdefghijklmnopqrstuvwxyz0123456789",
        b'h' => b"0123456789abcdef",
        b'H' => b"0123456789ABCDEF",
        b'd' => b"0123456789",
        b'l' => b"abcdefghijklmnopqrstuvwxyz",
        b'U' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
        b'B' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        b'b' => return Some(random.base64(length)),
        b'w' => {
            // A dash or an underscore at either end would be cut off by anybody's rules.
            let mut value = random
                .draw(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", length);
            if value.ends_with(['-', '_']) {
                value.pop();
                value.push('x');
            }
            return Some(value);
        }
        _ => return None,
    };
    Some(random.draw(set, length))
}
