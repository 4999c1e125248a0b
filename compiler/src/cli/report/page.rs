//! The page: a template with a style sheet, the data and the scripts in place of marks.

use serde_json::Value;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPTS: &[&str] = &[
    include_str!("model.js"),
    include_str!("layout.js"),
    include_str!("draw.js"),
    include_str!("graph.js"),
    include_str!("memory.js"),
    include_str!("tables.js"),
    include_str!("page.js"),
];

/// Returns the page for the model called `name`.
pub fn html(name: &str, data: &Value) -> String {
    // The end of a script element must not occur in the data.
    let data = data.to_string().replace('<', "\\u003c");
    let parts = [
        ("{{title}}", escape(name)),
        ("/* style */", STYLE.to_owned()),
        ("{{data}}", data),
        ("/* script */", SCRIPTS.join("\n")),
    ];
    let mut page = String::new();
    let mut rest = TEMPLATE;
    for (mark, text) in parts {
        let (before, after) = rest.split_once(mark).expect("the template has each mark, in order");
        page.push_str(before);
        page.push_str(&text);
        rest = after;
    }
    page + rest
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_cannot_end_its_element() {
        let page = html("<b>", &serde_json::json!({ "name": "</script><script>alert(1)" }));
        assert!(page.contains("<title>&lt;b&gt; · onnxc</title>"));
        assert!(page.contains(r#"{"name":"\u003c/script>\u003cscript>alert(1)"}"#));
        assert_eq!(page.matches("</script>").count(), 2);
    }

    #[test]
    fn the_page_loads_nothing() {
        for text in SCRIPTS.iter().chain(&[TEMPLATE, STYLE]) {
            for bad in ["http:", "https:", "url(", "@import", "fetch(", "src="] {
                assert!(!text.contains(bad), "{bad}");
            }
        }
    }
}
