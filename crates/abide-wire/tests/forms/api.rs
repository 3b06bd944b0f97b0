//! The rules of each API, as its documentation has them, over what would be sent. It shares no
//! code with what is checked.

use std::collections::HashSet;

use serde_json::Value;

type Checked = Result<(), String>;

fn need(holds: bool, what: &str, at: &Value) -> Checked {
    if holds { Ok(()) } else { Err(format!("{what}: {at}")) }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.trim().is_empty())
}

fn is_name(value: &Value, longest: usize) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    value
        .as_str()
        .is_some_and(|name| !name.is_empty() && name.len() <= longest && name.chars().all(fits))
}

fn fresh(ids: &mut HashSet<String>, id: &Value, longest: usize) -> Checked {
    need(is_name(id, longest), "an id that does not fit", id)?;
    need(ids.insert(id.as_str().unwrap().to_owned()), "an id twice", id)
}

fn list(value: &Value) -> Result<&Vec<Value>, String> {
    let list = value.as_array().ok_or(format!("no list: {value}"))?;
    need(!list.is_empty(), "an empty list", value)?;
    Ok(list)
}

fn is_openai_url(url: &Value) -> bool {
    url.as_str().is_some_and(|url| {
        url.starts_with("http://") || url.starts_with("https://") || url.starts_with("data:image/")
    })
}

/// Chat Completions.
pub fn openai(request: &Value) -> Checked {
    let messages = request["messages"].as_array().ok_or("no messages")?;
    let mut ids = HashSet::new();
    let mut waiting: Vec<String> = Vec::new();
    for message in messages {
        need(message.get("abide").is_none(), "ours went out", message)?;
        need(message.get("function_call").is_none(), "the old form", message)?;
        let (role, content) = (message["role"].as_str().ok_or("no role")?, &message["content"]);
        if role == "tool" {
            let id = message["tool_call_id"].as_str().ok_or("a result of nothing")?;
            let place = waiting.iter().position(|one| one == id);
            need(place.is_some(), "a result that nobody waits for", message)?;
            waiting.remove(place.unwrap());
            if !content.is_string() {
                for part in list(content)? {
                    need(part["type"] == "text" && part["text"].is_string(), "in a result", part)?;
                }
            }
            continue;
        }
        need(waiting.is_empty(), "something before all results", message)?;
        let calls = message.get("tool_calls");
        let refusal = message.get("refusal").is_some_and(|refusal| text(refusal).is_some());
        match role {
            "assistant" => need(
                text(content).is_some()
                    || content.is_array()
                    || calls.is_some()
                    || refusal
                    || message["audio"].is_object(),
                "an answer that says nothing",
                message,
            )?,
            "user" | "system" | "developer" => {
                need(calls.is_none(), "calls of somebody else", message)?;
                need(text(content).is_some() || content.is_array(), "it says nothing", message)?;
            }
            _ => return Err(format!("a role: {message}")),
        }
        for part in content.as_array().map(|_| list(content)).transpose()?.into_iter().flatten() {
            let fits = match part["type"].as_str().unwrap_or_default() {
                "text" => text(&part["text"]).is_some(),
                "image_url" => role == "user" && is_openai_url(&part["image_url"]["url"]),
                "refusal" => role == "assistant",
                "input_audio" => role == "user",
                "brand_new" => role == "user",
                _ => false,
            };
            need(fits, "a part", message)?;
        }
        for call in calls.map(list).transpose()?.into_iter().flatten() {
            fresh(&mut ids, &call["id"], 40)?;
            let (what, arguments) = match call["type"].as_str() {
                Some("custom") => (&call["custom"], "input"),
                _ => (&call["function"], "arguments"),
            };
            need(call["type"].is_string(), "a call without a type", call)?;
            need(is_name(&what["name"], 64), "a name", call)?;
            need(what[arguments].is_string(), "arguments", call)?;
            waiting.push(call["id"].as_str().unwrap().to_owned());
        }
    }
    need(waiting.is_empty(), "calls at the end", request)
}

/// Messages.
pub fn anthropic(request: &Value) -> Checked {
    need(cached(request) <= 4, "more than four cache_control", request)?;
    if let Some(system) = request.get("system") {
        for block in list(system)? {
            need(block["type"] == "text" && text(&block["text"]).is_some(), "system", block)?;
        }
    }
    let messages = request["messages"].as_array().ok_or("no messages")?;
    let mut ids = HashSet::new();
    let mut waiting: Vec<String> = Vec::new();
    let mut served: Vec<String> = Vec::new();
    let mut role = "assistant";
    for message in messages {
        let other = if role == "user" { "assistant" } else { "user" };
        need(message["role"] == other, "the other's turn", message)?;
        need(message.as_object().unwrap().len() == 2, "more than role and content", message)?;
        role = other;
        let mut results = Vec::new();
        let mut rest = false;
        let mut calls = Vec::new();
        let last = list(&message["content"])?.last().unwrap();
        let thought = ["thinking", "redacted_thinking"].iter().any(|sort| last["type"] == *sort);
        need(!thought, "a turn that ends in a thought", message)?;
        for block in list(&message["content"])? {
            let sort = block["type"].as_str().ok_or(format!("no type: {block}"))?;
            match (role, sort) {
                (_, "text") => need(text(&block["text"]).is_some(), "a blank text", block)?,
                (_, "brand_new") => {}
                ("user", "image") => anthropic_image(block)?,
                ("user", "document") => {}
                ("user", "tool_result") => {
                    need(!rest, "a result behind something else", message)?;
                    results.push(block["tool_use_id"].as_str().ok_or("no id")?.to_owned());
                    anthropic_content(&block["content"])?;
                    if block["is_error"] == true {
                        anthropic_failed(&block["content"])?;
                    }
                }
                ("assistant", "thinking") => {
                    need(text(&block["signature"]).is_some(), "unsigned", block)?;
                }
                ("assistant", "redacted_thinking") => {
                    need(block["data"].is_string(), "no data", block)?
                }
                ("assistant", "tool_use") => {
                    fresh(&mut ids, &block["id"], 256)?;
                    need(is_name(&block["name"], 64), "a name", block)?;
                    need(block["input"].is_object(), "an input", block)?;
                    calls.push(block["id"].as_str().unwrap().to_owned());
                }
                ("assistant", "server_tool_use") => {
                    served.push(block["id"].as_str().ok_or("no id")?.to_owned());
                }
                ("assistant", "web_search_tool_result") => {
                    let place = served.iter().position(|id| block["tool_use_id"] == **id);
                    need(place.is_some(), "a result of no server's tool", block)?;
                    served.remove(place.unwrap());
                }
                _ => return Err(format!("a block of the {role}: {block}")),
            }
            rest |= sort != "tool_result";
        }
        results.sort();
        waiting.sort();
        need(results == waiting, "results of other calls", message)?;
        waiting = calls;
    }
    need(served.is_empty(), "a server's tool without its result", request)?;
    need(waiting.is_empty(), "calls at the end", request)
}

/// Messages that a model is to go on from: newer ones take no answer to be continued.
pub fn anthropic_asks(request: &Value) -> Checked {
    let last = request["messages"].as_array().and_then(|messages| messages.last());
    need(last.is_none_or(|last| last["role"] == "user"), "it ends with the model", request)
}

/// How many blocks are marked to be cached.
fn cached(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(cached).sum(),
        Value::Object(fields) => {
            let own = fields.get("cache_control").is_some_and(|marked| !marked.is_null());
            fields.values().map(cached).sum::<usize>() + usize::from(own)
        }
        _ => 0,
    }
}

/// What failed is told in words alone, and in some.
fn anthropic_failed(content: &Value) -> Checked {
    if let Some(blocks) = content.as_array() {
        let words = !blocks.is_empty() && blocks.iter().all(|block| block["type"] == "text");
        return need(words, "a failure that is not told in words", content);
    }
    need(text(content).is_some(), "a failure that says nothing", content)
}

fn anthropic_image(block: &Value) -> Checked {
    let source = &block["source"];
    let types = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    let fits = match source["type"].as_str() {
        Some("base64") => {
            types.iter().any(|one| source["media_type"] == *one) && source["data"].is_string()
        }
        Some("url") => source["url"].as_str().is_some_and(|url| url.starts_with("http")),
        _ => false,
    };
    need(fits, "an image", block)
}

fn anthropic_content(content: &Value) -> Checked {
    if content.is_null() || content.is_string() {
        return Ok(());
    }
    for block in content.as_array().ok_or(format!("a content: {content}"))? {
        match block["type"].as_str() {
            Some("text") => need(text(&block["text"]).is_some(), "a blank text", block)?,
            Some("image") => anthropic_image(block)?,
            Some("tool_reference") => {}
            _ => return Err(format!("in a result: {block}")),
        }
    }
    Ok(())
}

/// Responses.
pub fn responses(request: &Value) -> Checked {
    let items = request["input"].as_array().ok_or("no input")?;
    let mut ids = HashSet::new();
    let mut waiting: Vec<(String, String)> = Vec::new();
    let mut reasoning = false;
    let mut reasoned = false;
    for item in items {
        need(item.get("abide").is_none(), "ours went out", item)?;
        let sort = item["type"].as_str().unwrap_or("message");
        let own = sort == "message" && item["role"] == "assistant"
            || sort.ends_with("_call")
            || sort == "reasoning"
            || sort == "brand_new";
        need(own || !reasoning, "reasoning that led to nothing", item)?;
        // The API knows by the ids which item a thought led to, and which thought an item needs.
        // Here every item that the model gave came with one.
        reasoned = own && (reasoned || sort == "reasoning");
        if matches!(sort, "message" | "function_call" | "custom_tool_call") && own {
            let named = item.get("id").is_some();
            need(named || !reasoning, "reasoning without its required following item", item)?;
            need(!named || reasoned, "an item without its required reasoning item", item)?;
        }
        reasoning = sort == "reasoning";
        if !own && !sort.ends_with("_output") {
            need(waiting.is_empty(), "something before all results", item)?;
        }
        match sort {
            "message" => responses_message(item)?,
            "function_call" | "custom_tool_call" | "computer_call" => {
                fresh(&mut ids, &item["call_id"], 64)?;
                if sort != "computer_call" {
                    need(is_name(&item["name"], 64), "a name", item)?;
                    let arguments = if sort == "function_call" { "arguments" } else { "input" };
                    need(item[arguments].is_string(), "arguments", item)?;
                }
                let id = item["call_id"].as_str().unwrap().to_owned();
                waiting.push((id, format!("{sort}_output")));
            }
            "reasoning" => need(item["summary"].is_array(), "reasoning", item)?,
            "web_search_call" | "brand_new" => {}
            _ if sort.ends_with("_output") => {
                let id = item["call_id"].as_str().ok_or("a result of nothing")?;
                let place = waiting.iter().position(|one| one.0 == id && one.1 == sort);
                need(place.is_some(), "a result that nobody waits for", item)?;
                waiting.remove(place.unwrap());
                let output = &item["output"];
                need(!output.is_null() && item.get("output").is_some(), "no output", item)?;
                if sort == "function_call_output" {
                    need(output.is_string() || output.is_array(), "an output", item)?;
                    for part in output.as_array().into_iter().flatten() {
                        responses_part(part, "user")?;
                    }
                }
            }
            _ => return Err(format!("an item: {item}")),
        }
    }
    need(!reasoning, "reasoning at the end", request)?;
    need(waiting.is_empty(), "calls at the end", request)
}

fn responses_message(item: &Value) -> Checked {
    let role = item["role"].as_str().ok_or("no role")?;
    let known = ["user", "assistant", "system", "developer"].contains(&role);
    need(known, "a role", item)?;
    if item["content"].is_string() {
        return need(text(&item["content"]).is_some(), "it says nothing", item);
    }
    list(&item["content"])?.iter().try_for_each(|part| responses_part(part, role))
}

fn responses_part(part: &Value, role: &str) -> Checked {
    let fits = match (part["type"].as_str().unwrap_or_default(), role) {
        ("output_text", "assistant") => text(&part["text"]).is_some(),
        ("refusal", "assistant") => text(&part["refusal"]).is_some(),
        ("input_text", "user" | "system" | "developer") => text(&part["text"]).is_some(),
        ("input_image", "user") => is_openai_url(&part["image_url"]),
        _ => false,
    };
    need(fits, &format!("a part of the {role}"), part)
}
