// Package auth implements authentication and authorization: API keys, the sessions opened with
// them, and the rights of each.
//
// Keys are replicated state of shard 0 (machine.go), so that they are the same on all nodes. For
// each key the state holds a hash of its secret and the public half of a signing key derived from
// it. A caller that presents the secret is recognised by the hash, and receives a session token
// signed with the derived key, which is then discarded. Any node can check the token, but reading a
// node's disk is not enough to forge one.
//
// A Gate is one process's view of the keys. It follows the shard, so that revoking a key ends all
// connections and sessions opened with it.
package auth
