// Package key encodes tuples as byte strings that sort like the tuples do.
//
// State rows are ordered by their encoded key, so a component that may hold any byte and is
// followed by another component has to be self-delimiting and keep its order. AppendString does
// that the way FoundationDB's tuple layer does: a zero byte becomes 00 FF and the component ends
// with 00 01, which sorts before every continuation.
package key
