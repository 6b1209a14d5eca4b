// Package primitive lists the primitives of floe.
package primitive
