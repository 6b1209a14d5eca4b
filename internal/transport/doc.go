// Package transport carries what nodes and clients say to each other, over HTTP/2: clear text or
// TLS.
//
// Everything goes through streams of frames: an HTTP/2 request whose body is the one direction and
// whose response the other, open for as long as both sides want it.
//
//	POST /floe/3/door      what goes through an engine.Door: many calls at once, answered in any order
//	POST /floe/3/raft      entries of raft, one way
//	POST /floe/3/pulse     heartbeats and all other messages of raft, one way
//	POST /floe/3/snapshot  one snapshot of a shard, then one answer
//
// A stream begins with a handshake, see handshake.go. Doors are open to clients, the others to
// nodes alone. Each node has a connection of its own to every other one for each of the four, so
// neither a snapshot nor entries ever delay a heartbeat.
//
// The port faces the network: whatever is read is bounded before memory is taken for it, and
// checked before it is believed.
package transport
