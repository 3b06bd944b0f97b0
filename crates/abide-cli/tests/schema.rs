//! `abide schema`: the kinds of events, and a JSON Schema that fits what is recorded.

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

fn schema(env: &TestEnvironment, args: &[&str]) -> Value {
    let done = env.run(&[&["schema", "--json"], args].concat()).success();
    serde_json::from_str(done.stdout()).unwrap()
}

/// Does a value fit a schema? Knows the keywords that are used.
fn fits(value: &Value, schema: &Value, whole: &Value) -> bool {
    let Some(rules) = schema.as_object() else { return schema == &json!(true) };
    rules.iter().all(|(rule, wanted)| match rule.as_str() {
        "$schema" | "title" | "description" | "$defs" | "examples" | "format" => true,
        // The kinds of one's own, and hashes.
        "pattern" => value.as_str().is_none_or(|text| {
            !wanted.as_str().unwrap().starts_with("^x") || text.starts_with("x.")
        }),
        "$ref" => {
            let name = wanted.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
            fits(value, &whole["$defs"][name.replace("%20", " ")], whole)
        }
        "anyOf" => wanted.as_array().unwrap().iter().any(|one| fits(value, one, whole)),
        "type" => {
            let is = |name: &str| match name {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64() || value.is_u64(),
                "null" => value.is_null(),
                other => panic!("{other}"),
            };
            match wanted {
                Value::Array(names) => names.iter().any(|name| is(name.as_str().unwrap())),
                name => is(name.as_str().unwrap()),
            }
        }
        "const" => value == wanted,
        "enum" => wanted.as_array().unwrap().contains(value),
        "minimum" => value.as_i64().is_none_or(|n| n >= wanted.as_i64().unwrap()),
        "maximum" => value.as_u64().is_none_or(|n| n <= wanted.as_u64().unwrap()),
        "minLength" | "maxLength" => true,
        "minItems" => value.as_array().is_none_or(|v| v.len() as u64 >= wanted.as_u64().unwrap()),
        "maxItems" => value.as_array().is_none_or(|v| v.len() as u64 <= wanted.as_u64().unwrap()),
        "items" => value.as_array().is_none_or(|v| v.iter().all(|v| fits(v, wanted, whole))),
        "prefixItems" => value.as_array().is_none_or(|values| {
            values.iter().zip(wanted.as_array().unwrap()).all(|(v, w)| fits(v, w, whole))
        }),
        "required" => {
            let names = wanted.as_array().unwrap();
            names.iter().all(|name| value.get(name.as_str().unwrap()).is_some())
        }
        "properties" => value.as_object().is_none_or(|fields| {
            fields.iter().all(|(name, v)| wanted.get(name).is_none_or(|w| fits(v, w, whole)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|fields| {
            let mut others =
                fields.iter().filter(|(name, _)| schema["properties"].get(name).is_none());
            match wanted {
                Value::Bool(false) => others.next().is_none(),
                wanted => others.all(|(_, v)| fits(v, wanted, whole)),
            }
        }),
        other => panic!("the schema has the keyword {other}"),
    })
}

#[test]
fn every_kind_is_told_with_its_fields() {
    let env = TestEnvironment::bare();
    let all = env.run(&["schema"]).success();
    for kind in abide::Kind::VOCABULARY {
        assert!(all.stdout().lines().any(|line| line == *kind), "{kind}");
        let one = env.run(&["schema", kind]).success();
        assert!(one.stdout().starts_with(&format!("{kind}\n  ")), "{kind}");
    }
    insta::assert_snapshot!(env.run(&["schema", "tool.finished"]).success().stdout(), @r"
    tool.finished
      A tool has finished.
        call    string, required
                  The call.
        ok      true or false
                  Whether it succeeded; by default true.
        result  any JSON
                  The result.
    ");
    let wrong = env.run(&["schema", "mesage.added"]).failure(1);
    insta::assert_snapshot!(wrong.stderr, @r#"
    Error: there is no kind of event "mesage.added"
    Hint: did you mean message.added? `abide schema` prints all
    "#);
    assert!(!env.store().exists());
}

#[test]
fn the_json_schema_fits_what_is_recorded_and_nothing_else() {
    let env = TestEnvironment::bare();
    let whole = schema(&env, &[]);
    assert_eq!(whole["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let defined = whole["$defs"].as_object().unwrap();
    assert!(abide::Kind::VOCABULARY.iter().all(|kind| defined.contains_key(*kind)));
    let good = [
        json!({"kind":"message.added","data":{"role":"user","content":"hello"},"key":"k"}),
        json!({"kind":"message.added","data":{"role":"assistant","tool_calls":[]}}),
        json!({"kind":"task.created","data":{"task":"a","depends":["b"],"dependency_types":{"b":"soft"}}}),
        json!({"kind":"api.finished","data":{"usage":{"input_tokens":3},"error":null}}),
        json!({"kind":"git.observed","data":{"renamed":[["a","b"]]}}),
        json!({"kind":"checkpoint.created","data":{"manifest":{"active":[{"task":"a"}]}}}),
        json!({"kind":"x.my-own","data":{"anything":[1]}}),
        json!({"kind":"log.recorded","data":{"text":"x","more":1},"turn":3}),
    ];
    for event in &good {
        assert!(fits(event, &whole, &whole), "{event}");
    }
    let bad = [
        json!({"kind":"mesage.added","data":{}}),
        json!({"kind":"message.added","data":{"role":"user"}}),
        json!({"kind":"message.added","data":{"role":5,"content":""}}),
        json!({"kind":"task.status","data":{"task":"a","status":"done"}}),
        json!({"kind":"api.finished","data":{"usage":{"input_tokens":-3}}}),
        json!({"kind":"git.observed","data":{"renamed":[["a"]]}}),
        json!({"kind":"log.recorded","data":{"text":"x"},"seq":1}),
        json!({"role":"user","content":"hello"}),
    ];
    for event in &bad {
        assert!(!fits(event, &whole, &whole), "{event}");
    }
    // What the schema allows is not malformed, and the other way round.
    let lines: Vec<String> = good.iter().map(Value::to_string).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let answers = env.record(&[], &lines).success().json_lines();
    assert!(answers.iter().all(|answer| answer["malformed"].is_null()), "{answers:?}");
    let one = schema(&env, &["api.finished"]);
    assert!(fits(&good[3], &one, &one) && !fits(&good[0], &one, &one));
    assert_eq!(one["$defs"].as_object().unwrap().len(), 2);
}
