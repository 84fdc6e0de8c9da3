//! What a program told `tracing`, as data.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::mpsc;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Fields by name; the text of an event is `message`.
pub type Fields = BTreeMap<&'static str, String>;

/// One span that has ended, or one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// `true`: a span, told when it ended, with everything recorded meanwhile.
    pub is_span: bool,
    /// A span's name; of an event, its message or nothing.
    pub name: String,
    /// Its target.
    pub target: &'static str,
    /// Its fields.
    pub fields: Fields,
    /// Names of the spans around it, outermost first.
    pub within: Vec<&'static str>,
}

/// What was told so far.
#[derive(Debug)]
pub struct Tellings(mpsc::Receiver<Told>);

impl Tellings {
    /// Takes what was told since the last time, of targets with this prefix.
    pub fn take(&self, target: &str) -> Vec<Told> {
        self.0
            .try_iter()
            .filter(|told| told.target.starts_with(target))
            .collect()
    }
}

/// A subscriber for [`tracing::subscriber::set_default`], and what it is told.
pub fn capture() -> (impl Subscriber + Send + Sync, Tellings) {
    let (sender, receiver) = mpsc::channel();
    let subscriber = tracing_subscriber::registry().with(Capture(sender));
    (subscriber, Tellings(receiver))
}

struct Capture(mpsc::Sender<Told>);

struct Collector<'a>(&'a mut Fields);

impl Visit for Collector<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::new();
        attributes.record(&mut Collector(&mut fields));
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(&mut Collector(fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::new();
        event.record(&mut Collector(&mut fields));
        let scope = context.event_scope(event);
        let told = Told {
            is_span: false,
            name: fields.get("message").cloned().unwrap_or_default(),
            target: event.metadata().target(),
            fields,
            within: scope.map_or_else(Vec::new, |scope| {
                scope.from_root().map(|span| span.name()).collect()
            }),
        };
        // Nobody may be interested any more.
        let _ = self.0.send(told);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let within = span.scope().from_root().map(|span| span.name());
        let mut within: Vec<_> = within.collect();
        within.pop();
        let told = Told {
            is_span: true,
            name: span.name().to_owned(),
            target: span.metadata().target(),
            fields: span.extensions_mut().remove().unwrap_or_default(),
            within,
        };
        let _ = self.0.send(told);
    }
}
