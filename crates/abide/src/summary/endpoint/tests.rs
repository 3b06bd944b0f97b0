//! Against a stubbed model, on good days and bad.

use abide_testkit::stub_model::{Failure, StubAnswer, StubModel};
use serde_json::{Value, json};

use super::super::sample::Sample;
use super::*;

const KEY: &str = "sk-very-secret-0123456789";
const FORMS: [EndpointForm; 2] = [EndpointForm::OpenAi, EndpointForm::Anthropic];

fn endpoint(form: EndpointForm, server: &StubModel) -> SummaryEndpoint {
    SummaryEndpoint::new(form, server.base_url(), "some-model")
        .key_from("MY_KEY")
        .with_environment(|name| (name == "MY_KEY").then(|| KEY.to_owned()))
        .answer_within(Duration::from_secs(60))
}

fn ask(endpoint: &SummaryEndpoint) -> Result<String, SummaryError> {
    let long = "x".repeat(20_000);
    let sample = Sample::default()
        .user("Fix it")
        .calls("c1", "bash", &json!({"command": "ls"}))
        .finished("c1", true, &json!(long));
    let answer = endpoint.summarize(&sample.request(500));
    if let Err(error) = &answer {
        assert!(!format!("{error} {error:?}").contains("very-secret"), "{error:?}");
    }
    answer
}

fn all_fail(answer: &StubAnswer, asked: usize, check: impl Fn(&SummaryError) -> bool) {
    for form in FORMS {
        let server = StubModel::in_turn(vec![answer.clone()]).unwrap();
        let error = ask(&endpoint(form, &server)).unwrap_err();
        assert!(check(&error), "{form:?}: {error:?}");
        assert_eq!(server.count(), asked, "{form:?}");
    }
}

#[test]
fn a_model_is_asked_in_the_form_of_its_api() {
    for form in FORMS {
        let server =
            StubModel::in_turn(vec![StubAnswer::text(" The parser\u{7} is mended. ")]).unwrap();
        assert_eq!(ask(&endpoint(form, &server)).unwrap(), "The parser\\u{7} is mended.");
        let request = &server.requests()[0];
        assert_eq!(request.body["model"], "some-model");
        assert_eq!(request.body["max_tokens"], 500);
        assert_eq!(request.body["stream"], false);
        match form {
            EndpointForm::OpenAi => {
                assert_eq!(request.path, "/v1/chat/completions");
                assert_eq!(request.header("authorization"), Some(&*format!("Bearer {KEY}")));
                assert!(
                    request.body["messages"][0]["content"].as_str().unwrap().contains("500 tokens")
                );
            }
            EndpointForm::Anthropic => {
                assert_eq!(request.path, "/v1/messages");
                assert_eq!(request.header("x-api-key"), Some(KEY));
                assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
                assert!(request.body["system"].as_str().unwrap().contains("500 tokens"));
            }
        }
        let said = request.last_said().unwrap();
        let lines: Vec<Value> =
            said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[1], json!({"role": "user", "content": "Fix it"}));
        let result = lines[3]["content"].as_str().unwrap();
        assert!(result.contains("\n[11808 bytes left out]\n") && result.len() < 9000);
    }
}

#[test]
fn a_key_that_is_not_there_is_missed_before_anything_is_sent() {
    let server = StubModel::in_turn(vec![StubAnswer::text("fine")]).unwrap();
    for value in [None, Some(" ".to_owned())] {
        let none = endpoint(FORMS[0], &server).with_environment(move |_| value.clone());
        let error = ask(&none).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no key: the environment variable MY_KEY is not set"
        );
    }
    assert_eq!(server.count(), 0);
    assert_eq!(ask(&endpoint(FORMS[0], &server).without_key()).unwrap(), "fine");
    assert_eq!(server.requests()[0].header("authorization"), None);
    for (form, variable) in FORMS.into_iter().zip(["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]) {
        let none = SummaryEndpoint::new(form, server.base_url(), "m").with_environment(|_| None);
        let error = ask(&none).unwrap_err();
        assert!(matches!(error, SummaryError::NoKey { variable: name } if name == variable));
    }
}

#[test]
fn the_key_is_in_nothing_that_is_shown() {
    let padding = "x".repeat(REFUSAL_TOLD - 10);
    for message in [format!("wrong key {KEY}!"), format!("{padding}{KEY}")] {
        for form in FORMS {
            let server =
                StubModel::in_turn(vec![StubAnswer::status(401, message.clone())]).unwrap();
            let error = ask(&endpoint(form, &server)).unwrap_err().to_string();
            // `ask` looks for it too; not even its beginning is there.
            assert!(!error.contains("sk-"), "{error}");
            assert!(error.contains("answered 401"), "{error}");
        }
    }
    let server = StubModel::in_turn(vec![StubAnswer::text(format!("I was given {KEY}."))]).unwrap();
    for form in FORMS {
        let asked = endpoint(form, &server);
        assert_eq!(ask(&asked).unwrap(), "I was given [key].");
        let shown = format!("{asked:?} {}", asked.name());
        assert!(!shown.contains("secret") && shown.contains("MY_KEY"), "{shown}");
    }
    let base = format!("http://me:pass-word@{}/v1?token=abc", server.address());
    let named = SummaryEndpoint::new(FORMS[0], base, "m").without_key();
    let shown = format!("{named:?}");
    assert!(!shown.contains("pass-word") && !shown.contains("abc"), "{shown}");
    assert_eq!(named.name(), format!("endpoint: m at {}", server.address()));
}

#[test]
fn passing_refusals_are_asked_again_and_others_not() {
    let busy = StubAnswer::too_many("0");
    let down = StubAnswer::status(503, "Overloaded");
    let StubAnswer { failure: Some(Failure::Status { code, message, .. }), .. } = &down else {
        panic!("it is a status");
    };
    let retry_after = Some("0.01".to_owned());
    let down =
        down.clone().but(Failure::Status { code: *code, message: message.clone(), retry_after });
    let fine = StubAnswer::text("fine");
    for form in FORMS {
        let server = StubModel::in_turn(vec![busy.clone(), down.clone(), fine.clone()]).unwrap();
        assert_eq!(ask(&endpoint(form, &server)).unwrap(), "fine");
        assert_eq!(server.count(), 3);
    }
    let refused = |status: u16, tries: u32| {
        move |error: &SummaryError| {
            matches!(error, SummaryError::Refused { status: is, tries: tried, .. }
                if (*is, *tried) == (status, tries))
        }
    };
    all_fail(&busy, 3, refused(429, 3));
    all_fail(&down, 3, refused(503, 3));
    all_fail(&StubAnswer::too_many("11"), 1, refused(429, 1));
    all_fail(&StubAnswer::too_many("1e300"), 1, refused(429, 1));
    all_fail(&StubAnswer::status(400, "no such model"), 1, refused(400, 1));
    let elsewhere = StubAnswer::status(307, "moved").with_header("location", "http://127.0.0.1:1/");
    all_fail(&elsewhere, 1, refused(307, 1));

    let server = StubModel::in_turn(vec![StubAnswer::status(400, "no\n\u{1b}such")]).unwrap();
    let error = ask(&endpoint(FORMS[0], &server)).unwrap_err();
    assert_eq!(error.to_string(), "the summary endpoint answered 400 (tries: 1): no \\u{1b}such");
}

#[test]
fn no_waiting_beyond_the_time_there_is() {
    let server = StubModel::in_turn(vec![StubAnswer::too_many("9")]).unwrap();
    let short = endpoint(FORMS[0], &server).answer_within(Duration::from_secs(5));
    let error = ask(&short).unwrap_err();
    assert!(matches!(error, SummaryError::Refused { status: 429, tries: 1, .. }), "{error:?}");
}

#[test]
fn a_server_that_hangs_is_left() {
    for failure in [Failure::Hang, Failure::HangAfter(20)] {
        for form in FORMS {
            let server = StubModel::in_turn(vec![StubAnswer::failing(failure.clone())]).unwrap();
            let short = endpoint(form, &server).answer_within(Duration::from_millis(400));
            let error = ask(&short).unwrap_err();
            assert_eq!(error.to_string(), "no summary came within 0.4 s", "{failure:?}");
            assert!(matches!(error, SummaryError::TimeOut { .. }), "{error:?}");
        }
    }
}

#[test]
fn a_flood_is_ended() {
    for form in FORMS {
        let server = StubModel::in_turn(vec![StubAnswer::failing(Failure::Flood)]).unwrap();
        let error = ask(&endpoint(form, &server).at_most_bytes(100_000)).unwrap_err();
        assert!(matches!(error, SummaryError::TooLong { most_bytes: 100_000 }), "{error:?}");
    }
}

#[test]
fn broken_answers_are_told() {
    all_fail(
        &StubAnswer::failing(Failure::Malformed),
        1,
        |error| matches!(error, SummaryError::Answer { reason } if reason.starts_with("it is not JSON")),
    );
    all_fail(&StubAnswer::failing(Failure::CloseAfter(20)), 1, |error| {
        matches!(error, SummaryError::Connection { .. })
    });
    all_fail(&StubAnswer::text(" "), 1, |error| matches!(error, SummaryError::Empty { .. }));
    for (form, body) in [
        (FORMS[0], "{\"choices\":[]}"),
        (FORMS[0], "[]"),
        (FORMS[1], "{\"content\":3}"),
        (FORMS[0], "{\"error\":{\"message\":\"gone\"}}"),
    ] {
        let error = form.answer(body.as_bytes()).unwrap_err();
        assert!(matches!(error, SummaryError::Answer { .. }), "{body}: {error:?}");
    }
    let cut = br#"{"content":[{"type":"text","text":"half"}],"stop_reason":"max_tokens"}"#;
    assert_eq!(FORMS[1].answer(cut).unwrap(), "half\n[cut at the limit of tokens]");
}

#[test]
fn nobody_there_and_no_address_are_told() {
    let server = StubModel::in_turn(vec![StubAnswer::text("fine")]).unwrap();
    let gone = endpoint(FORMS[0], &server);
    drop(server);
    let error = ask(&gone).unwrap_err();
    assert!(matches!(error, SummaryError::Connection { .. }), "{error:?}");
    let none = SummaryEndpoint::new(FORMS[0], "nowhere", "m").without_key();
    assert!(matches!(ask(&none), Err(SummaryError::Address)));
}

#[test]
fn a_short_key_does_not_spoil_a_summary() {
    for form in FORMS {
        let short = |server: &StubModel| {
            endpoint(form, server).with_environment(|_| Some("test".to_owned()))
        };
        let server = StubModel::in_turn(vec![StubAnswer::text("The tests pass.")]).unwrap();
        assert_eq!(ask(&short(&server)).unwrap(), "The tests pass.");
        let long = StubModel::in_turn(vec![StubAnswer::text(format!("It is {KEY}."))]).unwrap();
        assert_eq!(ask(&endpoint(form, &long)).unwrap(), "It is [key].");
    }
    let secret = EndpointSecret { key: Some("test"), credentials: None };
    assert_eq!(secret.out_of("the key test is wrong"), "the key [key] is wrong");
}
