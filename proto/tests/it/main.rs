//! Compares the structs with the schema and with files, and decodes invalid files.

mod files;
mod refusals;
mod round_trips;
mod sample;
mod schema;
