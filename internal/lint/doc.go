// Package lint has the rules of this project that no general tool knows, as tests. Each failure
// says why the rule is there.
package lint
