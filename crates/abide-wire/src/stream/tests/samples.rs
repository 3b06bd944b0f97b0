//! A realistic answer of each form: thoughts, text that is not all ASCII, calls in parallel.

use crate::MessageForm;

pub(super) const TEXT: &str = "Ich lese \"src/main.rs\" – größer als gedacht: 😀\n\tso";

pub(super) fn all() -> Vec<(MessageForm, Vec<u8>)> {
    vec![
        (MessageForm::OpenAi, chat()),
        (MessageForm::Responses, responses()),
        (MessageForm::Anthropic, anthropic()),
    ]
}

/// With `\n` for line ends, as OpenAI sends it.
pub(super) fn chat() -> Vec<u8> {
    let chunk = |delta: &str, reason: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1763200000,\"model\":\"gpt-5-mini\",\"service_tier\":\"default\",\"system_fingerprint\":null,\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{reason}}}],\"usage\":null,\"obfuscation\":\"kx8\"}}\n\n"
        )
    };
    let mut out = String::from(": keep-alive\n\n");
    for delta in [
        r#"{"role":"assistant","content":"","refusal":null}"#,
        r#"{"reasoning_content":"First "}"#,
        r#"{"reasoning_content":"look.","content":null}"#,
        r#"{"content":"Ich lese \"src"}"#,
        r#"{"content":"/main.rs\" – gr\u00f6"}"#,
        r#"{"content":"ßer als gedacht: \ud83d\ude00"}"#,
        r#"{"content":"\n\tso"}"#,
        r#"{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"read","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"a b\"}"}}]}"#,
        r#"{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"list","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}"#,
    ] {
        out += &chunk(delta, "null");
    }
    out += &chunk("{}", "\"tool_calls\"");
    out += "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"model\":\"gpt-5-mini\",\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":40,\"total_tokens\":160,\"prompt_tokens_details\":{\"cached_tokens\":64,\"audio_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":8}}}\n\n";
    out += "data: [DONE]\n\n";
    out.into_bytes()
}

/// With `\r\n` for line ends, as some proxies send it.
pub(super) fn responses() -> Vec<u8> {
    let events = [
        r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"gpt-5","output":[],"usage":null,"error":null}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}"#,
        r#"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}"#,
        r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"First "}"#,
        r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"look."}"#,
        r#"{"type":"response.reasoning_summary_text.done","item_id":"rs_1","output_index":0,"summary_index":0,"text":"First look."}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"First look."}],"encrypted_content":"gAAA"}}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}"#,
        r#"{"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}"#,
        r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"Ich lese \"src","logprobs":[],"obfuscation":"q"}"#,
        r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"/main.rs\" – gr\u00f6"}"#,
        r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"ßer als gedacht: \ud83d\ude00"}"#,
        r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"\n\tso"}"#,
        r#"{"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"Ich lese \"src/main.rs\" – größer als gedacht: 😀\n\tso"}"#,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Ich lese \"src/main.rs\" – größer als gedacht: 😀\n\tso","annotations":[]}]}}"#,
        r#"{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_a","name":"read"}}"#,
        r#"{"type":"response.output_item.added","output_index":3,"item":{"id":"fc_2","type":"function_call","status":"in_progress","arguments":"","call_id":"call_b","name":"list"}}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"path\":"}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_2","output_index":3,"delta":"{}"}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"\"a b\"}"}"#,
        r#"{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"path\":\"a b\"}"}"#,
        r#"{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"path\":\"a b\"}","call_id":"call_a","name":"read"}}"#,
        r#"{"type":"response.output_item.done","output_index":3,"item":{"id":"fc_2","type":"function_call","status":"completed","arguments":"{}","call_id":"call_b","name":"list"}}"#,
        r#"{"type":"response.completed","sequence_number":23,"response":{"id":"resp_1","status":"completed","model":"gpt-5","error":null,"incomplete_details":null,"output":[{"type":"reasoning"},{"type":"message"},{"type":"function_call"},{"type":"function_call"}],"usage":{"input_tokens":120,"input_tokens_details":{"cached_tokens":64},"output_tokens":40,"output_tokens_details":{"reasoning_tokens":8},"total_tokens":160}}}"#,
    ];
    let lines = events.iter().map(|data| {
        let name = data.split('"').nth(3).unwrap_or_default();
        format!("event: {name}\r\ndata: {data}\r\n\r\n")
    });
    lines.collect::<String>().into_bytes()
}

/// Begun with a byte order mark, with every sort of line end in turn.
pub(super) fn anthropic() -> Vec<u8> {
    let events = [
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":20,"cache_creation_input_tokens":36,"cache_read_input_tokens":64,"output_tokens":1,"service_tier":"standard"}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"First "}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"look."}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","extra":[1, 2]}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Ich lese \"src"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"/main.rs\" – gr\u00f6"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"ßer als gedacht: \ud83d\ude00"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"char_location","cited_text":"x"}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"\n\tso"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_a","name":"read","input":{}}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"call_b","name":"list","input":{}}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"a b\"}"}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"content_block_stop","index":3}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":40}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let mut out = String::from("\u{feff}");
    for (data, end) in events.iter().zip(["\n", "\r\n", "\r"].iter().cycle()) {
        let name = data.split('"').nth(3).unwrap_or_default();
        out += &format!("event: {name}{end}data: {data}{end}{end}");
    }
    out.into_bytes()
}
