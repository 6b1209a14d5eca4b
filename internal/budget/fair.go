package budget

// Fair reports whether one of those who share a limit may have n more of it: in all it may have
// thrice what the others leave, now. However much one of them wants, a fourth stays free for
// others; of a limit of three or less nothing does.
func Fair(own, n, used, limit int64) bool {
	return used+n <= limit && own+n <= 3*(limit-used)
}
