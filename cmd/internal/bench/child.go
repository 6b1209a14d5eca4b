package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/floedb/floe"
)

// Flags that make the program a child: for the row memory/empty with a directory, for the rows of
// clusters with a membership as JSON.
const (
	idleFlag   = "idle"
	memberFlag = "member"
)

// child is a process of this program with an open node.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// startChild starts a child and returns when its node is open.
func startChild(flag, value string) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(program, "-"+flag, value)}
	c.cmd.Stderr = os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "open\n" {
		return nil, errors.Join(errors.New("the node of another process did not open"), c.end())
	}
	return c, nil
}

// end closes the node and waits for the process.
func (c *child) end() error { return errors.Join(c.stdin.Close(), c.cmd.Wait()) }

// idle is the child of the row memory/empty: it exits when its input ends.
func idle(dir string, until io.Reader) error {
	return stayOpen(floe.Config{DataDir: dir}, until)
}

// membership is the configuration of a cluster node.
type membership struct {
	Dir    string
	ID     uint64
	Shards int
	Peers  []floe.Peer
	Secret []byte
}

func (m membership) config() floe.Config {
	return floe.Config{DataDir: m.Dir, Shards: m.Shards, NodeID: m.ID, Peers: m.Peers, Secret: m.Secret}
}

// startMember starts a process with a cluster node and returns when the node is open.
func startMember(m membership) (*child, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return startChild(memberFlag, string(text))
}

// member is the child with a cluster node.
func member(text string, until io.Reader) error {
	var m membership
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	return stayOpen(m.config(), until)
}

func stayOpen(c floe.Config, until io.Reader) error {
	n, err := floe.Open(c)
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, err = io.Copy(io.Discard, until)
	return errors.Join(err, n.Close())
}
