package engine

import (
	"bytes"
	"fmt"
)

// MaxFollowUps is the maximum number of follow-ups of one command (a transaction, a message of
// another shard, a timer), including those of follow-ups. A machine with more to do does a part,
// see Tx.FollowUpsLeft, and continues by a timer.
const MaxFollowUps = 1000

// followUp is a command that runs after the one being applied.
type followUp struct {
	cmd   Command
	from  MachineID
	ask   bool
	token []byte
}

// Replier is a Machine that receives the outcomes of commands it sent, with Tx.Ask in its own shard
// or with Tx.Send to another.
type Replier interface {
	// OnReply handles an outcome. Like OnTimer it cannot refuse, and must ignore tokens that are no
	// longer valid.
	OnReply(tx *Tx, r Reply)
}

// Reply is the outcome of a command.
type Reply struct {
	Token  []byte // given to Tx.Ask or Tx.Send by the sender; valid during the call
	Result []byte // of the command, if Err is nil
	Err    error  // its refusal, which is definite and matches a sentinel; the command had no effect
}

// Then runs a command of any machine after the current one, as a part of it: both happen, or
// neither. Follow-ups run in the order of the calls. Those of a follow-up run after all others, so
// that no machine is called while it is running. cmd runs in this shard, in the namespace of the
// current command, which replaces its own. In a spread namespace the caller must be sure that its
// name lives here (see Here); otherwise use Send.
//
// A follow-up that is refused refuses the current command with its own error. OnTimer and OnReply
// have no command to refuse, so there it panics: use Ask for a command that may be refused. In a
// transaction the follow-ups of an operation run before the next operation, which sees their
// effects.
func (tx *Tx) Then(cmd Command) { tx.enlist(followUp{cmd: cmd}) }

// Ask is Then for a command whose refusal does not refuse the current one. It is executed with its
// own follow-ups, or not at all. The machine's OnReply receives its outcome with the token, right
// afterwards and as part of the same command.
func (tx *Tx) Ask(cmd Command, token []byte) {
	tx.replier(tx.machine)
	tx.enlist(followUp{cmd: cmd, ask: true, token: bytes.Clone(token)})
}

// FollowUpsLeft returns the number of follow-ups that the current command may still add.
func (tx *Tx) FollowUpsLeft() int { return MaxFollowUps - tx.followed }

// Here reports whether a name of the command's namespace lives in this shard.
func (tx *Tx) Here(name string) bool { return tx.ShardOf(name) == tx.x.shard }

// ShardOf returns the shard in which a name of the command's namespace lives.
func (tx *Tx) ShardOf(name string) ShardID {
	if tx.ns.spread {
		return NameShard(tx.ns.name, name, tx.x.shards)
	}
	return HomeShard(tx.ns.name, tx.x.shards)
}

func (tx *Tx) enlist(f followUp) {
	if !MayFollow(tx.machine, f.cmd.Machine) {
		panic(fmt.Sprintf("shard %d: machine %d may not run commands of machine %d", tx.x.shard, tx.machine, f.cmd.Machine))
	}
	if err := tx.x.table.sent(f.cmd, FromMachines); err != nil {
		panic(fmt.Sprintf("shard %d: machine %d runs a command: %v", tx.x.shard, tx.machine, err))
	}
	f.from = tx.machine
	f.cmd.Namespace, f.cmd.Spread = tx.ns.name, tx.ns.spread
	f.cmd.Body = tx.x.batch.over.arena.Copy(f.cmd.Body)
	tx.followed++
	tx.enlisted.add(f.work())
	tx.follow = append(tx.follow, f)
}

// work is a lower bound of the follow-up's writes that is known before it runs: its row, with the
// content of its body.
func (f *followUp) work() work {
	if f.cmd.Machine == 0 {
		return work{} // it has already run
	}
	return work{1, len(f.cmd.Body) + len(f.token)}
}

// dropFollowUps shortens the list of follow-ups.
func (tx *Tx) dropFollowUps(to int) {
	for i := range tx.follow[to:] {
		tx.enlisted = tx.enlisted.minus(tx.follow[to+i].work())
	}
	clear(tx.follow[to:])
	tx.follow = tx.follow[:to]
}

func (tx *Tx) replier(id MachineID) Replier {
	r, ok := tx.x.machine(id).(Replier)
	if !ok {
		panic(fmt.Sprintf("shard %d: machine %d sends commands but does not implement Replier", tx.x.shard, id))
	}
	return r
}

// runFollowUps runs the follow-ups in the list, starting at base, unless there is already an error.
func (tx *Tx) runFollowUps(base int, err error) error {
	for i := base; i < len(tx.follow) && err == nil; i++ {
		f := tx.follow[i]
		tx.enlisted = tx.enlisted.minus(f.work())
		tx.follow[i] = followUp{} // from now on its writes count instead
		err = tx.runFollowUp(f)
	}
	tx.dropFollowUps(base)
	return err
}

func (tx *Tx) runFollowUp(f followUp) error {
	if tx.followed > MaxFollowUps {
		return Errorf(ErrInvalid, "a command with more than %d follow-ups", MaxFollowUps)
	}
	if f.ask {
		tx.runAsked(f)
		return nil
	}
	if _, err := tx.apply(f.cmd); err != nil {
		return err
	}
	return nil
}

// runAsked runs a command with its follow-ups, completely or not at all, and sends the outcome to
// the machine that asked.
func (tx *Tx) runAsked(f followUp) {
	s := tx.nestedMark()
	r := Reply{Token: f.token}
	if r.Result, r.Err = tx.run(f.cmd); r.Err != nil {
		if tx.budget.overrun {
			panic(overrun{}) // there is no room for the reply
		}
		r.Result = nil
		tx.rollback(s)
	}
	tx.reply(f.from, r)
}

// reply passes the outcome of a command to the machine that sent it.
func (tx *Tx) reply(to MachineID, r Reply) {
	tx.Step()
	tx.enter(to)
	tx.replier(to).OnReply(tx, r)
}

// settled ends the handling of a timer or a reply, whose follow-ups cannot be refused.
func (tx *Tx) settled(what string) {
	if err := tx.runFollowUps(0, nil); err != nil {
		panic(fmt.Sprintf("shard %d, index %d: a follow-up of %s was refused: %v", tx.x.shard, tx.index, what, err))
	}
}
