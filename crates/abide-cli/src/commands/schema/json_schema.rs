//! The kinds of events as a JSON Schema.

use abide::event::schema::{
    FieldDescription, FieldPresence, KIND_DESCRIPTIONS, KindDescription, KindWriter,
    RecordDescription, ValueType,
};
use serde_json::{Map, Value, json};

/// A schema of the line of an event of one of these kinds. With all of them, kinds of the caller's
/// own are allowed, too.
pub(super) fn event_schema(kinds: &[&KindDescription]) -> Value {
    let mut definitions = Map::new();
    let mut lines: Vec<Value> = Vec::new();
    for kind in kinds {
        lines.push(reference(kind.kind));
        definitions.insert(kind.kind.to_owned(), line_schema(kind));
    }
    let is_whole = kinds.len() == KIND_DESCRIPTIONS.len();
    if is_whole {
        lines.push(reference("x"));
        definitions.insert("x".to_owned(), own_schema());
    }
    for record in kinds.iter().flat_map(|kind| kind.records()) {
        definitions
            .entry(record.name)
            .or_insert_with(|| object_schema(record.meaning, record.fields.iter()));
    }
    let title = match kinds {
        [kind] => kind.kind,
        _ => "abide events",
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": "An event as `abide record` reads it, one for each line.",
        "anyOf": lines,
        "$defs": definitions,
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{}", name.replace(' ', "%20")) })
}

/// The line of an event of a kind.
fn line_schema(kind: &KindDescription) -> Value {
    let mut description = kind.meaning.to_owned();
    if kind.writer != KindWriter::Anyone {
        description.push_str(&format!(" Written by {}.", kind.writer.as_str()));
    }
    let mut data = object_schema("", kind.read_fields());
    let mut alternatives = kind.fields.iter().filter_map(|field| match field.presence {
        FieldPresence::Unless(other) => {
            Some(json!([{ "required": [field.name] }, { "required": [other] }]))
        }
        _ => None,
    });
    if let (Some(alternatives), Some(data)) = (alternatives.next(), data.as_object_mut()) {
        data.insert("anyOf".to_owned(), alternatives);
    }
    envelope(&description, json!({ "const": kind.kind }), data)
}

/// The line of an event of a kind of the caller's own.
fn own_schema() -> Value {
    let kind = json!({ "type": "string", "pattern": "^x\\.[a-z0-9_.-]+$", "maxLength": 64 });
    envelope("A kind of your own.", kind, json!({ "type": "object" }))
}

fn envelope(description: &str, kind: Value, data: Value) -> Value {
    let name = json!({ "type": ["string", "null"], "minLength": 1 });
    json!({
        "description": description,
        "type": "object",
        "properties": {
            "kind": kind,
            "data": data,
            "key": name,
            "occurred": { "type": ["string", "null"], "format": "date-time" },
            "turn": { "type": ["integer", "null"], "minimum": 0 },
            "task": name,
            "lane": name,
        },
        "required": ["kind", "data"],
        "additionalProperties": false,
    })
}

fn object_schema(
    description: &str,
    fields: impl Iterator<Item = &'static FieldDescription>,
) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in fields {
        if field.presence == FieldPresence::Required {
            required.push(field.name);
        }
        properties.insert(field.name.to_owned(), field_schema(field));
    }
    let mut schema = Map::new();
    if !description.is_empty() {
        schema.insert("description".to_owned(), description.into());
    }
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    schema.into()
}

fn field_schema(field: &FieldDescription) -> Value {
    let mut schema = value_schema(&field.value);
    if field.presence == FieldPresence::Optional && !matches!(field.value, ValueType::Json) {
        schema = json!({ "anyOf": [schema, { "type": "null" }] });
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("description".to_owned(), field.meaning.into());
    }
    schema
}

fn value_schema(value: &ValueType) -> Value {
    match value {
        ValueType::Text => json!({ "type": "string" }),
        ValueType::Flag => json!({ "type": "boolean" }),
        ValueType::Number { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        ValueType::Time => json!({ "type": "string", "format": "date-time" }),
        ValueType::SessionId => json!({ "type": "string", "format": "uuid" }),
        ValueType::Hash => json!({ "type": "string", "pattern": "^[0-9a-fA-F]{64}$" }),
        ValueType::Word(words) => json!({ "enum": words }),
        ValueType::OpenWord(words) => json!({ "type": "string", "examples": words }),
        ValueType::Json => json!({}),
        ValueType::List(each) => json!({ "type": "array", "items": value_schema(each) }),
        ValueType::Map(each) => {
            json!({ "type": "object", "additionalProperties": value_schema(each) })
        }
        ValueType::Tuple(each) => json!({
            "type": "array",
            "prefixItems": each.iter().map(value_schema).collect::<Vec<_>>(),
            "minItems": each.len(),
            "maxItems": each.len(),
        }),
        ValueType::Record(RecordDescription { name, .. }) => reference(name),
    }
}
