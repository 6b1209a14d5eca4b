// Package auth says who may do what: API keys, the sessions that are opened with them, and what
// each lets its holder do.
//
// Keys are replicated state of shard 0 (machine.go), so that they are the same on all nodes. Of a
// key's secret the state holds a hash, and the public half of a signing key that is derived from
// it: whoever presents the secret is recognised by the hash, and gets a session token signed with
// the derived key, which then is forgotten. Any node can check the token, and nobody who has read a
// node's disk can make one.
//
// A Gate is what one process knows of all that. It follows the shard, so that a key that is revoked
// ends everything that was begun with it.
package auth
