//! Fills the placeholders of templates: `{{name}}`.

/// Returns the template with the values of its placeholders. A line that is only a placeholder
/// becomes as many lines as the value has, with the same indentation, and none if it is empty.
pub fn fill(template: &str, values: &[(&'static str, String)]) -> String {
    let mut text = String::new();
    for line in template.lines() {
        let content = line.trim_start();
        let indent = &line[..line.len() - content.len()];
        match values.iter().find(|(name, _)| content == placeholder(name)) {
            Some((_, value)) => {
                for line in value.lines() {
                    text.push_str(&format!("{indent}{line}\n"));
                }
            }
            None => {
                let replace = |line: String, (name, value): &(&str, String)| {
                    line.replace(&placeholder(name), value)
                };
                text.push_str(&values.iter().fold(line.to_owned(), replace));
                text.push('\n');
            }
        }
    }
    text
}

fn placeholder(name: &str) -> String {
    format!("{{{{{name}}}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_the_lines_of_its_value() {
        let values = [("a", "x\ny\n".to_owned()), ("b", String::new()), ("c", "z".to_owned())];
        assert_eq!(
            fill("{\n    {{a}}\n    {{b}}\n} {{c}}, {{c}}\n", &values),
            "{\n    x\n    y\n} z, z\n"
        );
    }
}
