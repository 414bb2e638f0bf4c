//! Hostile guests, components and clients: each is bounded, and others are served.

mod backpressure;
mod circuit_breaker;
mod client_shares;
mod extreme_fields;
mod hostile_messages;
mod load_failures;
mod malformed_guests;
mod misbehaving_guests;
mod oversized_answers;
mod oversized_components;
mod static_content;
