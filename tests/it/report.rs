//! `onnxc report`: a page without any reference to another file.

use crate::programs::{onnxc, root, scratch};
use serde_json::Value;
use std::{fs, path::Path};

/// Writes the page of a model, and returns it.
fn page(model: &Path, arguments: &[&str], to: &Path) -> String {
    let mut command = onnxc();
    command.arg("report").arg(model).args(arguments).arg("-o").arg(to);
    let output = command.output().expect("the program was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(to).expect("the command wrote the page")
}

/// Returns the data in a page.
fn data(page: &str) -> Value {
    let (_, rest) =
        page.split_once("<script type=\"application/json\" id=\"data\">").expect("data");
    let (data, _) = rest.split_once("</script>").expect("the element ends");
    serde_json::from_str(data).expect("the data is JSON")
}

#[test]
fn a_page_has_both_graphs_the_arena_the_cost_and_the_code() {
    let directory = scratch("report");
    let model = root().join("examples/models/digits.onnx");
    let first = page(&model, &[], &directory.join("first.html"));
    assert_eq!(
        first,
        page(&model, &[], &directory.join("second.html")),
        "the page is reproducible"
    );
    assert!(!first.contains("{{") && first.ends_with("</html>\n"));
    let data = data(&first);
    let count = |graph: &str| data[graph]["nodes"].as_array().map(Vec::len);
    assert_eq!((count("before"), count("after")), (Some(10), Some(8)));
    let fates = data["fates"].as_array().expect("a list");
    let nodes = data["before"]["nodes"].as_array().expect("a list");
    let texts = &data["before"]["texts"];
    // A convolution and its activation become one node.
    let fate = |operator: &str| {
        let at =
            nodes.iter().position(|node| texts[node[1].as_u64().unwrap_or(0) as usize] == operator);
        fates[at.expect("the model has the operator")].as_i64()
    };
    assert_eq!(fate("Conv"), fate("Relu"));
    assert_eq!(data["arena"]["bytes"], data["facts"]["arena_bytes"]);
    let macs = data["costs"].as_array().expect("a list").iter().filter_map(|cost| cost[1].as_u64());
    assert_eq!(Some(macs.sum::<u64>()), data["facts"]["multiply_adds"].as_u64());
    // The line of a node's code is its line in the module.
    let module = directory.join("digits.rs");
    let compiled = onnxc().arg(&model).arg("-o").arg(&module).output();
    assert!(compiled.expect("the program was built").status.success());
    let module = fs::read_to_string(module).expect("the command wrote the module");
    let lines: Vec<&str> = module.lines().collect();
    let code = data["code"].as_array().expect("a list");
    assert!(code.len() >= 6, "{} nodes have code", code.len());
    for part in code {
        let line = part[1].as_u64().expect("a number") as usize;
        let text = part[2].as_str().expect("a text").lines().next().expect("the code has lines");
        assert_eq!(lines[line - 1].trim(), text);
    }
}

#[test]
fn the_arena_of_free_sizes_is_not_drawn() {
    let directory = scratch("report_free");
    let model = directory.join("free.onnxtxt");
    let text = r#"<ir_version: 10, opset_import: ["" : 21]>
        free (float[n] x) => (float[n] y) { y = Relu (x) }"#;
    fs::write(&model, text).expect("the scratch directory is writable");
    let free = data(&page(&model, &[], &directory.join("free.html")));
    assert_eq!(free["arena"], Value::Null);
    let fixed = data(&page(&model, &["--dim", "n=4"], &directory.join("fixed.html")));
    assert_eq!(fixed["arena"]["bytes"], fixed["facts"]["arena_bytes"]);
}

#[test]
fn a_page_shows_the_ranges_of_values_in_a_run() {
    let directory = scratch("report_data");
    let (model, set) = (directory.join("model.onnxtxt"), directory.join("test_data_set_0"));
    let text = r#"<ir_version: 10, opset_import: ["" : 21]>
        g (float[4] x, float[4] b) => (float[4] y) { s = Add (x, b) y = Relu (s) }"#;
    fs::write(&model, text).expect("the scratch directory is writable");
    fs::create_dir(&set).expect("the scratch directory is writable");
    // A TensorProto: the size, the type, and the elements as `raw_data`.
    let tensor = |elements: [f32; 4]| {
        let data: Vec<u8> = elements.iter().flat_map(|x| x.to_le_bytes()).collect();
        [&[0x08, 4, 0x10, 1, 0x4a, 16][..], &data].concat()
    };
    for (file, elements) in [("0", [1.0, -4.0, 0.0, 2.0]), ("1", [1.0, 0.0, 0.0, f32::INFINITY])] {
        let file = set.join(format!("input_{file}.pb"));
        fs::write(file, tensor(elements)).expect("the scratch directory is writable");
    }
    let folder = directory.to_str().expect("the path is text");
    let page = page(&model, &["--data", folder], &directory.join("page.html"));
    let ranges = &data(&page)["ranges"];
    assert_eq!(ranges["x"], serde_json::json!([-4.0, 2.0, -0.25, 0.25]));
    assert_eq!(ranges["s"], serde_json::json!([-4.0, null, null, 0.25]));
    assert_eq!(ranges["y"], serde_json::json!([0.0, null, null, 0.5]));
    assert_eq!(ranges.as_object().map(serde_json::Map::len), Some(4));
}
