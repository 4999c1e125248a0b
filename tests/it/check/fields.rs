//! Protobuf messages as trees of fields, without a schema.

/// A field of a protobuf message.
#[derive(Clone)]
pub struct Field {
    pub tag: u64,
    pub content: Content,
}

/// The content of a field.
#[derive(Clone)]
pub enum Content {
    Number(u64),
    Fixed(Vec<u8>),
    Text(Vec<u8>),
    Message(Vec<Field>),
}

/// Parses the fields of a message; `None` if the bytes are not one.
pub fn parse_fields(mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = read_varint(&mut bytes)?;
        let content = match key & 7 {
            0 => Content::Number(read_varint(&mut bytes)?),
            1 => Content::Fixed(take(&mut bytes, 8)?.to_vec()),
            5 => Content::Fixed(take(&mut bytes, 4)?.to_vec()),
            2 => {
                let len = usize::try_from(read_varint(&mut bytes)?).ok()?;
                let inside = take(&mut bytes, len)?;
                // Text can look like a message. The mutation then damages its fields.
                match parse_fields_exactly(inside) {
                    Some(inner) => Content::Message(inner),
                    None => Content::Text(inside.to_vec()),
                }
            }
            _ => return None,
        };
        fields.push(Field { tag: key >> 3, content });
    }
    Some(fields)
}

fn parse_fields_exactly(bytes: &[u8]) -> Option<Vec<Field>> {
    let inner = parse_fields(bytes)?;
    let plausible = inner.iter().all(|field| (1..=26).contains(&field.tag));
    (plausible && !inner.is_empty()).then_some(inner)
}

fn take<'b>(bytes: &mut &'b [u8], len: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Encodes the fields of a message.
pub fn encode(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for Field { tag, content } in fields {
        let (wire, bytes) = match content {
            Content::Number(value) => {
                write_varint(tag << 3, &mut out);
                write_varint(*value, &mut out);
                continue;
            }
            Content::Fixed(bytes) => {
                write_varint(tag << 3 | if bytes.len() == 4 { 5 } else { 1 }, &mut out);
                out.extend(bytes);
                continue;
            }
            Content::Text(bytes) => (2, bytes.clone()),
            Content::Message(inner) => (2, encode(inner)),
        };
        write_varint(tag << 3 | wire, &mut out);
        write_varint(bytes.len() as u64, &mut out);
        out.extend(bytes);
    }
    out
}

/// Returns the number of fields, nested ones included.
pub fn count(fields: &[Field]) -> usize {
    let inner = |field: &Field| match &field.content {
        Content::Message(inner) => 1 + count(inner),
        Content::Number(_) | Content::Fixed(_) | Content::Text(_) => 1,
    };
    fields.iter().map(inner).sum()
}

/// Returns the list that holds field number `i` of the tree, and the index in it.
pub fn find(fields: &mut Vec<Field>, mut i: usize) -> (&mut Vec<Field>, usize) {
    let mut place = 0;
    loop {
        let Content::Message(inner) = &fields[place].content else {
            if i == 0 {
                return (fields, place);
            }
            (i, place) = (i - 1, place + 1);
            continue;
        };
        let size = count(inner);
        if i == 0 {
            return (fields, place);
        }
        if i > size {
            (i, place) = (i - 1 - size, place + 1);
            continue;
        }
        let Content::Message(inner) = &mut fields[place].content else { unreachable!() };
        return find(inner, i - 1);
    }
}
