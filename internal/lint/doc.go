// Package lint tests rules of this project that no general tool checks. Each failure gives the
// reason for the rule.
package lint
