# The front door: `just` lists the recipes. Each one is a plain command, so everything works without just, too.

reference_version := env("MAINSTAY_REFERENCE_VERSION", "0.171.0")

# List the recipes.
default:
    @just --list

# Run the `mainstay` command from the tree: `just run run -- echo hello`.
run *ARGS:
    cargo run --release --quiet -- {{ARGS}}

# What a pull request must pass: the README's test command.
test *ARGS:
    cargo test --workspace {{ARGS}}

# The long versions: exhaustive models, 10,000 random handshakes, more seeds.
test-all:
    MAINSTAY_TEST_ALL=1 cargo test --workspace --release

# Formatting, lints, licences and sources of dependencies, documentation without warnings.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo deny check bans licenses sources
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# The reference's own programs on either side; fetches them into the ignored `.reference` first.
interop:
    .ci/reference "{{reference_version}}"
    MAINSTAY_REQUIRE_REFERENCE=1 MAINSTAY_WRITE_DOCS=1 cargo test -p mainstay-cli --test interop -- --nocapture

# Measure, beside the same task shape without Mainstay, and rewrite the table in docs/performance.md.
bench *ARGS:
    cargo build --release -p mainstay-cli
    cargo run --release -p mainstay-bench -- --write docs/performance.md {{ARGS}}

# Fuzz one target for a while (needs a nightly toolchain and cargo-fuzz): `just fuzz envelope 60`.
fuzz TARGET SECONDS="60":
    mkdir -p crates/fuzz/corpus/{{TARGET}}
    cargo +nightly fuzz run --fuzz-dir crates/fuzz --sanitizer none {{TARGET}} crates/fuzz/corpus/{{TARGET}} crates/fuzz/seeds/{{TARGET}} -- -max_total_time={{SECONDS}} -rss_limit_mb=1024

# Repeat the tests that race with real links until one fails: `just stress 50`.
stress ROUNDS="20":
    for i in $(seq {{ROUNDS}}); do echo "round $i"; cargo test -q -p mainstay -p mainstay-executor -p mainstay-tests || exit 1; done

# Explore the session machine exhaustively, then walk 10,000,000 random steps beyond the bounds.
model:
    MAINSTAY_TEST_ALL=1 cargo test -p mainstay-session --release --test model -- model --nocapture

# Change one line of the session machine at a time; the model must refuse each mutant for the right reason.
mutants:
    MAINSTAY_MUTANTS=1 cargo test -p mainstay-session --test mutants -- --nocapture

# Known vulnerabilities and yanked crates (needs the network).
audit:
    cargo deny check advisories

# Build the API documentation and open it.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --open
