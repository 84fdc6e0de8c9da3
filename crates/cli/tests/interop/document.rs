//! The sections of `docs/compatibility.md` that a run writes.

use std::path::Path;

use anyhow::Result;

/// The version that the document is about.
const DOCUMENTED: &str = "0.171.0";

/// Writes what was found into the document, or checks that it stands there.
pub(crate) fn update(matrix: &str, observed: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let document = std::fs::read_to_string(&path)?;
    // Another version of the reference is an experiment: what it changes is what it was run for.
    if std::env::var("MAINSTAY_REFERENCE_VERSION").is_ok_and(|version| version != DOCUMENTED) {
        for case in observed
            .split("\n**")
            .filter(|case| !document.contains(case))
        {
            println!("Not as {DOCUMENTED}: {case}");
        }
        return Ok(());
    }
    let wanted = replace(&document, "matrix", matrix)?;
    let wanted = replace(&wanted, "observed", observed)?;
    if std::env::var_os("MAINSTAY_WRITE_DOCS").is_some() {
        std::fs::write(path, wanted)?;
    } else {
        anyhow::ensure!(
            wanted == document,
            "docs/compatibility.md says otherwise; `just interop` writes it"
        );
    }
    Ok(())
}

/// The document with another section between the marks of `name`.
fn replace(document: &str, name: &str, section: &str) -> Result<String> {
    let (begin, end) = (
        format!("<!-- {name}: begin -->"),
        format!("<!-- {name}: end -->"),
    );
    let (Some(from), Some(to)) = (document.find(&begin), document.find(&end)) else {
        anyhow::bail!("no section {name}");
    };
    Ok(format!(
        "{}{begin}\n{section}{}",
        &document[..from],
        &document[to..]
    ))
}
