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

// Flags that make the program a child: of the row memory/empty with a directory, of the rows of
// clusters with a membership as JSON.
const (
	idleFlag   = "idle"
	memberFlag = "member"
)

// child is this program in a process of its own, with a node that is open.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// startChild returns when the node that the flag asks for is open.
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

// end closes the node.
func (c *child) end() error { return errors.Join(c.stdin.Close(), c.cmd.Wait()) }

// idle is the child of the row memory/empty: it ends when its input does.
func idle(dir string, until io.Reader) error {
	return stayOpen(floe.Config{DataDir: dir}, until)
}

// membership is what a node of a cluster is told.
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

// startMember returns when a node of a cluster is open in a process of its own.
func startMember(m membership) (*child, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return startChild(memberFlag, string(text))
}

// member is that process.
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
