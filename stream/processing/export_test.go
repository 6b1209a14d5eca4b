package processing

import (
	"context"
	"errors"

	"github.com/floedb/floe/internal/codec"
	"github.com/floedb/floe/internal/engine"
	"github.com/floedb/floe/internal/test/machinetest"
)

// KindSubmit is the command kind of Submit.
const KindSubmit = kindSubmit

// MaxOutBytes is the maximum size of the data waiting for sinks in other shards.
const MaxOutBytes = maxOutBytes

// MaxExchangeBytes is the maximum size of the data waiting in the exchange of a stage.
const MaxExchangeBytes = maxExchangeBytes

// MessageOf returns the exchange of a row that is a message.
func MessageOf(row machinetest.Row) (exchange string, ok bool) {
	if row.Machine != engine.MachineProcessing || row.Key[0] != rowMessage {
		return "", false
	}
	return string(row.Key[:len(row.Key)-8]), true
}

// Lane returns the shard and the name of the duty that runs a job.
func Lane(id JobID) (shard int, duty string) {
	_, r, err := id.parse()
	if err != nil {
		panic(err)
	}
	return int(r.shard), laneNames[r.number%lanes]
}

// Observed returns the table of a node that caches up to the given bytes of keyed state. It also
// returns functions for the number of times its tasks have looked for work, and for the size of
// their caches.
func Observed(bytes int) (table engine.Primitive, looks func() int64, remembered func() int) {
	shared := newMemory(cacheBytes)
	table = tableOf(shared)
	table.Kept.SetLimit(int64(bytes))
	var all []*machine
	table.New = func() engine.Machine {
		m := newMachine(shared, nil)
		all = append(all, m)
		return m
	}
	looks = func() (n int64) {
		for _, m := range all {
			m.live.Range(func(_, l any) bool {
				l.(*live).mu.Lock()
				n += l.(*live).looks
				l.(*live).mu.Unlock()
				return true
			})
		}
		return n
	}
	remembered = func() int {
		used, _ := table.Kept.Used()
		return int(used)
	}
	return table, looks, remembered
}

// Watched returns the table and a function for the errors of jobs, savepoints and restores that are
// held.
func Watched() (p engine.Primitive, held func() error) {
	p = table()
	open := p.New
	var all []*machine
	p.New = func() engine.Machine {
		m := open().(*machine)
		all = append(all, m)
		return m
	}
	return p, func() (err error) {
		for _, m := range all {
			m.stuck.Range(func(_, why any) bool {
				err = errors.Join(err, errors.New(why.(string)))
				return true
			})
			m.live.Range(func(_, l any) bool {
				l.(*live).mu.Lock()
				defer l.(*live).mu.Unlock()
				err = errors.Join(err, errors.New(l.(*live).reason))
				return true
			})
		}
		return err
	}
}

// SubmitOnly is the submission part of Apply after it has found no job of the name: ErrConflict if
// there is one by now.
func (s *Store) SubmitOnly(ctx context.Context, definition []byte) (Submitted, error) {
	return s.submit(ctx, definition, true)
}

// Damage is a change of a row's value that Verify must report.
type Damage struct {
	Kind   byte
	Change func([]byte) []byte
	Want   string
}

// Damages are changes that leave rows readable, by description.
var Damages = map[string]Damage{
	"a job that has ended":            {rowJob, damage((*jobRow).code, func(j *jobRow) { j.ended = 5 }), "processing: job {"},
	"a job that runs and is restored": {rowJob, damage((*jobRow).code, func(j *jobRow) { j.restore = 5 }), "restore:5"},
	"a job of no generation":          {rowJob, damage((*jobRow).code, func(j *jobRow) { j.generation = 0 }), "generation:0"},
	"a job of no workers":             {rowJob, damage((*jobRow).code, func(j *jobRow) { j.parallelism = 0 }), "parallelism:0"},
	"a job of no batch":               {rowJob, damage((*jobRow).code, func(j *jobRow) { j.batch = 0 }), "batch:0"},
	"a job of few numbers": {rowJob, damage((*jobRow).code, func(j *jobRow) { j.numbers = 1 }),
		"the job has given 1 numbers"},
	"a job of more savepoints": {rowJob, damage((*jobRow).code, func(j *jobRow) { j.savepoints++ }), "is incomplete"},
	"a job of another name":    {rowJob, damage((*jobRow).code, func(j *jobRow) { j.name = "x" }), "the name"},
	"a job of another time":    {rowJob, damage((*jobRow).code, func(j *jobRow) { j.revision++ }), "has work due at"},
	"a task of another generation": {rowTask, damage((*taskRow).code, func(t *taskRow) { t.generation++ }),
		"processing: task of job"},
	"a task that counts less": {rowTask, damage((*taskRow).code, func(t *taskRow) { t.counts.missed = -1 }), "missed:-1"},
	"a task of more ticks": {rowTask, damage((*taskRow).code, func(t *taskRow) { t.ticks = t.counts.in + 1 }),
		"processing: task of job"},
	"a number that is used twice": {rowDefinition,
		damage((*definitionRow).code, func(d *definitionRow) { d.numbers[0].number = d.numbers[1].number }), "processing: job"},
	"a number that was not given": {rowDefinition,
		damage((*definitionRow).code, func(d *definitionRow) { d.numbers[0].number = 99 }), "number 99"},
	"no number": {rowDefinition, damage((*definitionRow).code, func(d *definitionRow) { d.numbers[0].number = 0 }),
		"number 0"},
	"no definition": {rowDefinition, damage((*definitionRow).code, func(d *definitionRow) { d.source = nil }),
		"processing: definition of job"},
	"less than nothing on its way": {rowOut, damage((*outRow).code, func(o *outRow) { o.refused = -1 }), "has sent"},
	"fewer messages on their way":  {rowOut, damage((*outRow).code, func(o *outRow) { o.messages = -1 }), "has sent"},
	"fewer bytes on their way":     {rowOut, damage((*outRow).code, func(o *outRow) { o.bytes = -1 }), "has sent"},
	"a subtask of no epoch": {rowSubtask, damage((*subtaskRow).code, func(p *subtaskRow) { p.epoch = 0 }),
		"processing: subtask"},
	"a subtask with more than all ended": {rowSubtask, damage((*subtaskRow).code, func(p *subtaskRow) { p.ended = 99 }),
		"processing: subtask"},
	"a subtask that is done": {rowSubtask, damage((*subtaskRow).code, func(p *subtaskRow) { p.done = true }),
		"has work due at"},
	"an exchange of more bytes":    {rowExchange, damage((*exchangeRow).code, func(i *exchangeRow) { i.bytes++ }), "but its row says"},
	"an exchange of more messages": {rowExchange, damage((*exchangeRow).code, func(i *exchangeRow) { i.next++ }), "but its row says"},
	"an exchange that ends too early": {rowExchange, damage((*exchangeRow).code, func(i *exchangeRow) { i.first = i.next + 1 }),
		"processing: exchange"},
	"a savepoint that is not made": {rowSavepoint, damage((*savepointRow).code, func(s *savepointRow) { s.complete = false }),
		"processing: savepoint"},
	"a savepoint of more chunks": {rowSavepoint, damage((*savepointRow).code, func(s *savepointRow) { s.chunks++ }),
		"lacks 1 chunks"},
}

func damage[T any](code func(*T, *codec.Coder), f func(*T)) func([]byte) []byte {
	return func(b []byte) []byte {
		v := must(decode(b, code))
		f(&v)
		return encode(nil, &v, code)
	}
}

// RowKinds are the kinds of rows, for machinetest.RunDamages.
var RowKinds = map[string]machinetest.RowKind{
	"job":        machinetest.RowOf(isRow(rowJob), (*jobRow).code),
	"definition": machinetest.RowOf(isRow(rowDefinition), (*definitionRow).code),
	"task":       machinetest.RowOf(isRow(rowTask), (*taskRow).code),
	"out":        machinetest.RowOf(isRow(rowOut), (*outRow).code),
	"subtask":    machinetest.RowOf(isRow(rowSubtask), (*subtaskRow).code),
	"exchange":   machinetest.RowOf(isRow(rowExchange), (*exchangeRow).code),
	"message":    machinetest.RowOf(isRow(rowMessage), (*passCommand).code),
	"name":       machinetest.BareRow(isRow(rowName)),
	"active":     machinetest.BareRow(isRow(rowActive)),
	"cursor":     machinetest.RowOf(isRow(rowCursor), (*cursor).code),
	"state":      machinetest.BareRow(isRow(rowState)),
	"savepoint":  machinetest.RowOf(isRow(rowSavepoint), (*savepointRow).code),
	"chunk":      machinetest.BareRow(isRow(rowChunk)),
}

func isRow(kind byte) func(k []byte) bool { return func(k []byte) bool { return k[0] == kind } }

// ReachedBy returns the namespaces that a definition reaches into when it is submitted, when a job
// is restored with it, and with a truncated body.
func ReachedBy(definition []byte) (submitted, restored, cut []string) {
	s := submitBody{source: definition}
	r := restoreBody{edited: true, submitBody: s}
	submit, restore := encodeSubmit("j", &s), codec.EncodeFields(nil, &r, (*restoreBody).code)
	p := table()
	reached := func(kind uint8, body []byte) []string {
		return p.Command(kind).Reaches(engine.Command{Kind: kind, Body: body})
	}
	return reached(kindSubmit, submit), reached(kindRestore, restore), append(reached(kindSubmit, submit[:1]),
		reached(kindRestore, restore[:1])...)
}

func encodeSubmit(name string, b *submitBody) []byte {
	return codec.EncodeFields(codec.AppendString(nil, name), b, (*submitBody).code)
}
