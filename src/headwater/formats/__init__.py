"""Changes as records for the outside world: Debezium JSON, flat JSON. Arrow in, Arrow strings out, by columns."""
