//! The structs against the schema, against files, and against what is not a file.

mod files;
mod refusals;
mod round_trips;
mod sample;
mod schema;
