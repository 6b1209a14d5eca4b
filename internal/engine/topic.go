package engine

import "github.com/cespare/xxhash/v2"

// Topic is what a query or a take waits for and Apply notifies: a hash of machine, namespace and name. Two names with one hash wake
// each other's waiters, which then find nothing and wait again.
type Topic uint64

// TopicOf returns the topic of a name within a machine and namespace.
func TopicOf(machine MachineID, namespace string, name []byte) Topic {
	var d xxhash.Digest
	d.ResetWithSeed(uint64(machine))
	d.WriteString(namespace)
	d.Write([]byte{0})
	d.Write(name)
	return Topic(d.Sum64())
}

// MaxWaiters is how many queries and takes may wait in one shard; each costs about a kilobyte with its goroutine's wait.
const MaxWaiters = 100_000
