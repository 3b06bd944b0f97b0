//! Messages as the APIs give and take them.

use abide_wire::{
    Image, MessageForm, MessagePart, ReadMessage, RequestedCall, export, export_called,
    export_finished, read, read_call, record,
};
use serde_json::{Value, json};

use crate::{FORMS, payload, recorded, samples};

#[test]
fn what_went_in_comes_out_byte_for_byte() {
    for form in FORMS {
        for line in samples(form) {
            let data = recorded(form, line);
            let out = export(form, &data).unwrap();
            assert_eq!(out.len(), 1, "{line}");
            assert_eq!(out[0].get(), line);
        }
    }
}

#[test]
fn a_message_is_recorded_as_it_is_where_its_looks_tell_its_form() {
    let tagged = |form, line: &str| {
        let data = record(form, line).unwrap();
        (data != line).then(|| data.replace(line, "LINE"))
    };
    let chat = MessageForm::OpenAi;
    assert_eq!(tagged(chat, samples(chat)[4]), None);
    assert_eq!(tagged(chat, samples(chat)[5]), None);
    let odd = r#"{"role":"user","content":"x","unheard_of":[1, 2],"abide":{"form":"openai"}}"#;
    assert_eq!(record(chat, samples(chat)[13]).unwrap(), odd);
    let responses = MessageForm::Responses;
    assert_eq!(tagged(responses, samples(responses)[4]), None);
    let wrapped = |role| {
        Some(format!(r#"{{"role":"{role}","content":[LINE],"abide":{{"form":"responses"}}}}"#))
    };
    assert_eq!(tagged(responses, samples(responses)[3]), wrapped("assistant"));
    assert_eq!(tagged(responses, samples(responses)[5]), wrapped("assistant"));
    assert_eq!(tagged(responses, samples(responses)[6]), wrapped("tool"));
    assert_eq!(tagged(responses, samples(responses)[15]), wrapped("user"));
    let anthropic = MessageForm::Anthropic;
    assert!(samples(anthropic)[..6].iter().all(|line| tagged(anthropic, line).is_none()));
    let unknown = record(anthropic, samples(anthropic)[6]).unwrap();
    assert!(unknown.ends_with(r#","abide":{"form":"anthropic"}}"#));
}

/// What a message says, in short.
fn brief(said: &ReadMessage) -> String {
    let mut out = said.role.clone();
    said.parts.iter().for_each(|part| out.push_str(&format!(" {}", brief_part(part))));
    out
}

fn brief_part(part: &MessagePart) -> String {
    match part {
        MessagePart::Text(text) => format!("text({text:?})"),
        MessagePart::Thinking { text, signature } => format!("thinking({text:?},{signature:?})"),
        MessagePart::Image(Image::Url(url)) => format!("url({url})"),
        MessagePart::Image(Image::Data { media_type, base64 }) => {
            format!("image({media_type},{base64})")
        }
        MessagePart::Call(call) => format!("call({},{},{})", call.id, call.name, call.arguments),
        MessagePart::Result(result) => {
            let parts: Vec<_> = result.parts.iter().map(brief_part).collect();
            format!("result({},{:?},{})", result.id, result.ok, parts.join(" "))
        }
        MessagePart::Refusal(text) => format!("refusal({text:?})"),
        MessagePart::Other(raw) => format!("other({} bytes)", raw.get().len()),
    }
}

fn briefs(form: MessageForm) -> Vec<String> {
    let said = |line: &&str| brief(&read(&recorded(form, line)).unwrap());
    samples(form).iter().map(said).collect()
}

#[test]
fn anthropic_is_read() {
    assert_eq!(
        briefs(MessageForm::Anthropic),
        [
            r#"user text("What is in this picture?")"#,
            r#"user text("And in these?") image(image/png,iVBORw0KGgo=) url(https://example.com/cat.jpg)"#,
            r#"assistant thinking("A cat, I think.",Some("EqQBCg==")) thinking("",Some("EmwKAh==")) text("A cat.\nLet me look closer.") call(toolu_01,zoom,{"factor": 2.0, "box":[0,0,10,10]}) call(toolu_02,count,{})"#,
            r#"user result(toolu_01,None,text("zoomed") image(image/jpeg,/9j/4AAQ)) result(toolu_02,Some(false),text("no counter")) text("Go on.")"#,
            r#"user other(106 bytes) text("Read this.")"#,
            r#"assistant other(89 bytes) other(73 bytes) text("Cats exist.")"#,
            "assistant other(50 bytes)",
            r#"assistant text("A whole answer.")"#,
            "user result(toolu_03,None,)",
        ]
    );
}

#[test]
fn openai_is_read() {
    assert_eq!(
        briefs(MessageForm::OpenAi),
        [
            r#"system text("Be brief.")"#,
            r#"developer text("Be kind.")"#,
            r#"user text("List the files.")"#,
            r#"user text("See here:") url(https://example.com/a.png) url(data:image/png;base64,iVBORw0KGgo=) other(71 bytes)"#,
            r#"assistant call(call_1,ls,{"path": "."}) call(call_2,ls,{"path":)"#,
            r#"tool result(call_1,None,text("a.txt\nb.txt"))"#,
            r#"tool result(call_2,None,text("bad") text(" arguments"))"#,
            r#"assistant thinking("They asked for files.",None) text("Two files.")"#,
            r#"assistant refusal("I will not delete them.")"#,
            r#"assistant refusal("Not that either.")"#,
            "assistant call(call_3,shell,rm -i a)",
            r#"assistant text("") call(old_ls,old_ls,{})"#,
            r#"function result(old_ls,None,text("none"))"#,
            r#"user text("x")"#,
            r#"user text("cached")"#,
        ]
    );
}

#[test]
fn responses_is_read() {
    assert_eq!(
        briefs(MessageForm::Responses),
        [
            r#"user text("Hello")"#,
            r#"developer text("Be brief.")"#,
            r#"user text("Look:") url(https://example.com/a.png) other(40 bytes)"#,
            r#"assistant thinking("Thought one.\n\nThought two.",Some("gAAAAA=="))"#,
            r#"assistant text("I will look.") refusal("But not there.")"#,
            r#"assistant call(call_a,look,{"at":1})"#,
            r#"tool result(call_a,None,text("nothing there"))"#,
            "assistant call(call_b,patch,*** Begin)",
            r#"tool result(call_b,None,text("done"))"#,
            "assistant call(call_c,shot,{})",
            r#"tool result(call_c,None,text("a shot") url(data:image/png;base64,iVBORw0KGgo=))"#,
            "assistant other(98 bytes)",
            r#"assistant call(call_d,computer_call,{"type":"click","x":1,"y":2})"#,
            "tool result(call_d,None,other(79 bytes))",
            "assistant other(38 bytes)",
            "user other(35 bytes)",
        ]
    );
}

#[test]
fn our_own_form_is_read() {
    assert_eq!(
        briefs(MessageForm::Abide),
        [
            r#"user text("Hello")"#,
            r#"system text("Be brief.")"#,
            r#"assistant thinking("hm",Some("c2ln")) text("Well.") call(c1,ls,{"path":"."})"#,
            r#"tool result(c1,Some(true),text("a b")) result(c2,Some(false),other(10 bytes))"#,
            r#"critic text("Hm.")"#,
        ]
    );
}

#[test]
fn what_is_no_message_is_not_read_and_an_export_says_so() {
    for (text, code) in [
        ("{}", "no_role"),
        (r#"{"content":"x"}"#, "no_role"),
        (r#"{"role":7,"content":"x"}"#, "not_a_string"),
    ] {
        assert!(read(&payload(text)).is_none(), "{text}");
        for form in FORMS {
            assert_eq!(export(form, &payload(text)).unwrap_err().code(), code, "{text}");
        }
    }
    // Somebody speaks, in a way that no form has. By its looks it may be of OpenAI's, and is as it was.
    let other = r#"{"role":"model","parts":[{"text":"hello"}]}"#;
    for form in FORMS {
        match (form, export(form, &payload(other))) {
            (MessageForm::OpenAi, out) => assert_eq!(out.unwrap()[0].get(), other),
            (_, out) => assert_eq!(out.unwrap_err().code(), "no_content", "{form:?}"),
        }
    }
    // Nothing is said, and nothing is lost.
    for text in [r#"{"role":"user","content":""}"#, r#"{"role":"assistant","tool_calls":[]}"#] {
        for form in FORMS {
            assert!(export(form, &payload(text)).is_ok(), "{text}");
        }
    }
    for nobody in [
        export_finished(MessageForm::OpenAi, &payload(r#"{"result":1}"#)),
        export_called(MessageForm::OpenAi, &payload(r#"{"name":"t"}"#)),
    ] {
        assert_eq!(nobody.unwrap_err().code(), "no_call");
    }
}

fn out(form: MessageForm, data: &str) -> Value {
    let out = export(form, &payload(data)).unwrap();
    Value::Array(out.iter().map(|raw| serde_json::from_str(raw.get()).unwrap()).collect())
}

#[test]
fn a_message_is_said_in_another_form() {
    let [_, anthropic, openai, responses] = FORMS;
    // Thinking has no place, and a user's message with results is several.
    let model = samples(anthropic)[2];
    assert_eq!(
        out(openai, model),
        json!([{"role": "assistant", "content": "A cat.\nLet me look closer.", "tool_calls": [
            {"id": "toolu_01", "type": "function", "function": {"name": "zoom", "arguments": "{\"factor\": 2.0, \"box\":[0,0,10,10]}"}},
            {"id": "toolu_02", "type": "function", "function": {"name": "count", "arguments": "{}"}},
        ]}])
    );
    let results = samples(anthropic)[3];
    assert_eq!(
        out(openai, results),
        json!([
            {"role": "tool", "tool_call_id": "toolu_01", "content": [{"type": "text", "text": "zoomed"}]},
            {"role": "user", "content": [
                {"type": "text", "text": "Images from the results above:"},
                {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/4AAQ"}},
            ]},
            {"role": "tool", "tool_call_id": "toolu_02", "content": "no counter"},
            {"role": "user", "content": "Go on."},
        ])
    );
    assert_eq!(
        out(responses, model),
        json!([
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A cat.\nLet me look closer."}]},
            {"type": "function_call", "call_id": "toolu_01", "name": "zoom", "arguments": "{\"factor\": 2.0, \"box\":[0,0,10,10]}"},
            {"type": "function_call", "call_id": "toolu_02", "name": "count", "arguments": "{}"},
        ])
    );
    // Broken arguments are the text `raw` of an object.
    assert_eq!(
        out(anthropic, samples(openai)[4]),
        json!([{"role": "assistant", "content": [
            {"type": "tool_use", "id": "call_1", "name": "ls", "input": {"path": "."}},
            {"type": "tool_use", "id": "call_2", "name": "ls", "input": {"raw": "{\"path\":"}},
        ]}])
    );
    assert_eq!(
        out(anthropic, samples(openai)[0]),
        json!([{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}])
    );
}

#[test]
fn an_unknown_block_is_said_in_words() {
    let data = |block: &str| {
        format!(r#"{{"role":"user","content":[{block}],"abide":{{"form":"anthropic"}}}}"#)
    };
    let short = r#"{"type":"new","a":1}"#;
    assert_eq!(out(MessageForm::OpenAi, &data(short)), json!([{"role": "user", "content": short}]));
    let long = format!(r#"{{"type":"new","a":"{}"}}"#, "é".repeat(2000));
    assert_eq!(
        out(MessageForm::Responses, &data(&long)),
        json!([{"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "[a block of the type new, of 4021 bytes, is not shown]"},
        ]}])
    );
}

#[test]
fn a_tool_that_was_called_is_called_in_every_form() {
    let data = payload(r#"{"call":"c","name":"sh","arguments":{"a": 1.50},"observed":true}"#);
    let call =
        RequestedCall { id: "c".into(), name: "sh".into(), arguments: r#"{"a": 1.50}"#.into() };
    assert_eq!(read_call(&data), Some(call.clone()));
    for form in FORMS {
        let out = export_called(form, &data).unwrap();
        assert_eq!(out.len(), 1, "{form:?}");
        let said = read(&recorded(form, out[0].get())).unwrap();
        assert_eq!(said.role, "assistant");
        let [MessagePart::Call(read)] = said.parts.as_slice() else { panic!("{said:?}") };
        assert_eq!(*read, call, "{form:?}");
    }
    let plain = RequestedCall { id: "c".into(), name: String::new(), arguments: "{}".into() };
    assert_eq!(read_call(&payload(r#"{"call":"c","arguments":null}"#)), Some(plain));
    assert_eq!(read_call(&payload(r#"{"call":7,"name":"sh"}"#)), None);
}

#[test]
fn a_tool_that_was_run_has_a_result() {
    let finished = |form, data: &str| {
        let out = export_finished(form, &payload(data)).unwrap();
        assert_eq!(out.len(), 1);
        serde_json::from_str::<Value>(out[0].get()).unwrap()
    };
    assert_eq!(
        finished(MessageForm::OpenAi, r#"{"call":"c","result":{"exit": 1}}"#),
        json!({"role": "tool", "tool_call_id": "c", "content": "{\"exit\": 1}"})
    );
    assert_eq!(
        finished(MessageForm::Anthropic, r#"{"call":"c","ok":false,"result":"gone"}"#),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "is_error": true,
            "content": [{"type": "text", "text": "gone"}]}]})
    );
    let mcp = r#"{"call":"c","result":{"content":[{"type":"text","text":"x"},{"type":"image","data":"aaaa","mimeType":"image/png"}]}}"#;
    assert_eq!(
        finished(MessageForm::Responses, mcp)["output"],
        json!([{"type": "input_text", "text": "x"},
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aaaa"}])
    );
}
