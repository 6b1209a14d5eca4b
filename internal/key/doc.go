// Package key encodes tuples as byte strings that sort like the tuples do.
//
// State rows are ordered by their encoded key. So a component that may contain any byte, and is
// followed by another component, must be self-delimiting and keep its order. AppendString encodes
// it like FoundationDB's tuple layer: a zero byte becomes 00 FF, and the component ends with 00 01,
// which sorts before every continuation.
package key
