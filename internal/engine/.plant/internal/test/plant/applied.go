//go:build plant

package plant

const overlay = "/tmp/w/t-engine/internal/engine/.plant/overlay.json"
