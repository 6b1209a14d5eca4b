package workflow

// ShardOf returns the shard of a run whose id is floe's own.
func ShardOf(id RunID) (shard int, ok bool) {
	p, err := id.parse()
	return int(p.shard), err == nil
}
