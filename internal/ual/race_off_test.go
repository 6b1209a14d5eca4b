//go:build !race

package ual

const raceEnabled = false
