package budget

// Fair reports whether one user of a limit may take n more of it. Its total may be at most three
// times the amount that is currently free. So a quarter always stays free for others, unless the
// limit is three or less.
func Fair(own, n, used, limit int64) bool {
	return used+n <= limit && own+n <= 3*(limit-used)
}
