//! Encoded messages with every field, made from the schema without the structs. Decoding and
//! encoding them with the structs must give the same bytes.

use crate::schema::{Field, Label, Message, Schema};

/// The greatest nesting depth of messages.
const DEPTH: usize = 3;

#[derive(Clone, Copy, PartialEq)]
pub enum Values {
    /// All different; integers alternate in sign.
    Counted,
    /// Zero or empty.
    Zero,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Packing {
    Declared,
    /// Packed where the schema declares unpacked, and vice versa.
    Reversed,
}

pub struct Sample<'a> {
    schema: &'a Schema,
    values: Values,
    packing: Packing,
    variant: usize,
    count: i64,
}

impl<'a> Sample<'a> {
    /// Takes alternative number `variant` of each `oneof`, modulo the number of alternatives.
    pub fn new(schema: &'a Schema, values: Values, packing: Packing, variant: usize) -> Self {
        Sample { schema, values, packing, variant, count: 0 }
    }

    pub fn message(&mut self, path: &str) -> Vec<u8> {
        self.fields(path).concat()
    }

    /// The fields of the message, a repeated one as often as it occurs, each with its tag.
    pub fn fields(&mut self, path: &str) -> Vec<Vec<u8>> {
        let message = self.schema.message(path).expect("the schema has the message");
        self.fields_of(message, 1)
    }

    fn fields_of(&mut self, message: &Message, depth: usize) -> Vec<Vec<u8>> {
        let fields = self.ordered(message);
        fields.into_iter().flat_map(|field| self.field(message, field, depth)).collect()
    }

    /// The fields to write, in the order in which prost writes them: by tag, and a `oneof` at its
    /// lowest.
    fn ordered<'m>(&self, message: &'m Message) -> Vec<&'m Field> {
        let group = |field: &Field| -> Vec<&'m Field> {
            let is_oneof = matches!(field.label, Label::Oneof(_));
            let same = |other: &&Field| match is_oneof {
                true => other.label == field.label,
                false => other.tag == field.tag,
            };
            message.fields.iter().filter(same).collect()
        };
        let lowest = |field: &Field| group(field).iter().map(|field| field.tag).min();
        let mut fields: Vec<&Field> = message.fields.iter().collect();
        fields.retain(|field| {
            let group = group(field);
            group[self.variant % group.len()].tag == field.tag
        });
        fields.sort_by_key(|field| lowest(field));
        fields
    }

    fn field(&mut self, message: &Message, field: &Field, depth: usize) -> Vec<Vec<u8>> {
        let times = if field.label == Label::Repeated { 2 } else { 1 };
        let values: Vec<_> = (0..times)
            .map(|_| match self.schema.resolve(&message.path, &field.ty) {
                Some(_) if depth == DEPTH => (Wire::Bytes, sized(&[])),
                Some(inner) => (Wire::Bytes, sized(&self.fields_of(inner, depth + 1).concat())),
                None => self.scalar(&field.ty),
            })
            .collect();
        let key = |wire: Wire| varint(u64::from(field.tag << 3 | wire as u32));
        let packable = field.label == Label::Repeated && !matches!(values[0].0, Wire::Bytes);
        if packable && field.packed == (self.packing == Packing::Declared) {
            let body: Vec<u8> = values.into_iter().flat_map(|(_, bytes)| bytes).collect();
            return vec![[key(Wire::Bytes), sized(&body)].concat()];
        }
        values.into_iter().map(|(wire, bytes)| [key(wire), bytes].concat()).collect()
    }

    fn scalar(&mut self, ty: &str) -> (Wire, Vec<u8>) {
        self.count += 1;
        let count = match self.values {
            Values::Counted => self.count,
            Values::Zero => 0,
        };
        let signed = if count % 2 == 0 { count } else { -count };
        let text = match self.values {
            Values::Counted => format!("text {count}"),
            Values::Zero => String::new(),
        };
        match ty {
            "string" | "bytes" => (Wire::Bytes, sized(text.as_bytes())),
            "int32" | "int64" => (Wire::Varint, varint(signed as u64)),
            "uint64" => (Wire::Varint, varint(count as u64)),
            "float" => (Wire::Fixed32, (signed as f32 / 8.0).to_le_bytes().into()),
            "double" => (Wire::Fixed64, (signed as f64 / 8.0).to_le_bytes().into()),
            // Any other type is an enumeration.
            _ => (Wire::Varint, varint(u64::from(count > 0))),
        }
    }
}

/// The wire type of a value, with its number in protobuf.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

/// Encodes a number in base 128: seven bits per byte, the lowest first; all bytes but the last have
/// the highest bit set.
pub fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Prefixes bytes with their length.
pub fn sized(body: &[u8]) -> Vec<u8> {
    [&varint(body.len() as u64), body].concat()
}
