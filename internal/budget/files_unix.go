//go:build unix

package budget

import "syscall"

// Files returns how many files the process may have open, 0 if unlimited or unknown.
func Files() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil || l.Cur > 1<<30 {
		return 0
	}
	return int(l.Cur)
}
