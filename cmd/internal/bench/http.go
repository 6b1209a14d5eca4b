package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/floedb/floe"
)

// limitClient is the same operation through the Go client.
const limitClient = "Go client"

// clientShare is the part of the Go client's rate that HTTP should reach.
const clientShare = 0.6

// httpWork is an operation over HTTP, beside the same through the Go client and in Redis.
type httpWork struct {
	name   string
	bar    float64
	load   load
	rest   side
	client side
	redis  func(c *redisConn, w *worker, value []byte) error
	fill   bool // Redis needs the fixed keys
}

// operations returns the rows of data operations over HTTP.
func (b *bench) operations() (rows []row) {
	l, reads := b.writes(restCallers), load{callers: restCallers, last: b.settings.last, sample: 1, existing: b.settings.fixedKeys()}
	s, fixed := setup{shards: 1, client: true}, b.stored(b.settings.fixedKeys())
	for _, o := range []httpWork{
		{"get", 0, reads, b.requests(fixed, reads, getKey), b.gets(s, fixed, drain), redisGet, true},
		{"put", 0, l, b.requests(nil, l, b.putKey), b.puts(s), redisSet, false},
		{"append", clientShare, l, b.requests(nil, l, b.appendRecord), b.appendsTo(s, 1, valueBytes), redisAppend, false},
		{"enqueue", clientShare, l, b.requests(nil, l, b.enqueueMessage), b.enqueues(s), redisEnqueue, false},
		{"queue", clientShare, l, b.restDeliveries(l), b.deliveries(s), redisDeliver, false},
	} {
		name := fmt.Sprintf("rest/%s/%d/", o.name, restCallers)
		redis := row{name: name + "redis", against: limitRedis,
			work: duel{load: o.load, floe: o.rest, limit: b.redisCalls(o.load.callers, o.fill, o.redis)}}
		if _, err := exec.LookPath("redis-server"); err != nil {
			redis.against, redis.work = limitRedis+" not measured: no redis-server on the PATH,", nothing{}
		}
		rows = append(rows, row{name: name + "client", against: limitClient, bar: o.bar,
			work: duel{load: o.load, floe: o.rest, limit: o.client}}, redis)
	}
	return append(rows, row{
		name: "rest/append/batch=100/64", bar: 300_000, unit: "records/s", absolute: true, more: true,
		work: throughput{l, b.batchesOver(l)},
	}, row{
		name: "rest/append/batch=100/64/client", against: limitClient,
		work: duel{load: l, floe: b.batchesOver(l), limit: b.appendsTo(s, batchOf, valueBytes)},
	}, row{
		name: "rest/waiting/1000/memory", bar: 30, unit: "MiB", absolute: true, work: waiting{},
	}, row{
		name: "rest/waiting/1000/processor", bar: 1, unit: "% of a processor", absolute: true, work: waiting{processor: true},
	})
}

const (
	queuesPath = "/api/v1/queues/"
	streamPath = "/api/v1/streams/" + topic
)

// post appends a request with a body.
func post(dst []byte, path, contentType string, body []byte) []byte {
	dst = fmt.Appendf(dst, "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", path, contentType, len(body))
	return append(dst, body...)
}

func (b *bench) appendRecord(dst []byte, w *worker) []byte {
	return post(dst, streamPath+"/messages?namespace="+namespace, "application/octet-stream", b.values.cut(w.rng))
}

func (b *bench) enqueueMessage(dst []byte, w *worker) []byte {
	return post(dst, queuesPath+w.queue()+"?namespace="+namespace, "application/octet-stream", b.values.cut(w.rng))
}

// batchesOver returns the side of appends of a hundred records in a request.
func (b *bench) batchesOver(l load) side {
	open := b.requests(nil, l, func(dst []byte, w *worker) []byte {
		body := w.buf[:0]
		for i := range batchOf {
			body = append(body, [2]string{`{"messages":[{"payload":"`, `"},{"payload":"`}[min(i, 1)]...)
			body = base64.StdEncoding.AppendEncode(body, b.values.cut(w.rng))
		}
		w.buf = append(body, `"}]}`...)
		return post(dst, streamPath+"/messages?encoding=base64&namespace="+namespace, "application/json", w.buf)
	})
	return func(dir string) (*subject, error) {
		s, err := open(dir)
		if err == nil {
			s.ops = batchOf
		}
		return s, err
	}
}

// restDeliveries returns the side of enqueue, dequeue and ack in separate requests, as deliveries.
func (b *bench) restDeliveries(l load) side {
	return b.exchanges(nil, l, func(c *caller, w *worker) error {
		path := queuesPath + w.queue()
		c.out = b.enqueueMessage(c.out[:0], w)
		if err := c.ask(); err != nil {
			return err
		}
		c.out = post(c.out[:0], path+"/dequeue?encoding=base64&namespace="+namespace, "application/json", nil)
		receipt, err := c.find(`"receipt":"`)
		if err != nil {
			return err
		}
		c.out = post(c.out[:0], path+"/ack?namespace="+namespace, "application/json", fmt.Appendf(nil, `{"receipts":[%q]}`, receipt))
		return c.ask()
	})
}

// find sends the request in out and returns the string behind a mark in its answer.
func (c *caller) find(mark string) (string, error) {
	if err := c.begin(); err != nil {
		return "", err
	}
	length, err := c.head()
	if err != nil {
		return "", err
	}
	answer := make([]byte, length)
	if _, err := io.ReadFull(c.in, answer); err != nil {
		return "", err
	}
	_, rest, found := bytes.Cut(answer, []byte(mark))
	text, _, closed := bytes.Cut(rest, []byte{'"'})
	if !found || !closed {
		return "", fmt.Errorf("an answer without %s: %s", mark, answer)
	}
	return string(text), nil
}

// waiting measures the memory or the processor time of a thousand dequeues that wait over HTTP.
type waiting struct{ processor bool }

const waitingCalls = 1000

func (m waiting) measure(b *bench) (res result, err error) {
	dir, err := os.MkdirTemp(b.dir, "waiting-")
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, b.remove(dir)) }()
	n, err := floe.Open(floe.Config{DataDir: dir, Shards: 1})
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	s, err := serve(n, 0)
	if err != nil {
		return res, err
	}
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			err = errors.Join(err, c.Close())
		}
		err = errors.Join(err, s.close())
	}()
	settled := max(b.settings.last/5, 50*time.Millisecond) // by then the requests have arrived
	for range waitingCalls {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			return res, err
		}
		conns = append(conns, c)
	}
	<-time.After(settled)
	idle := processorShare(settled)
	before := heapBytes()
	request := post(nil, queuesPath+topic+"/dequeue", "application/json", []byte(`{"wait_ms":60000}`))
	for _, c := range conns {
		if _, err := c.Write(request); err != nil {
			return res, err
		}
	}
	<-time.After(settled)
	held := heapBytes() - before
	res.value = float64(held) / (1 << 20)
	if m.processor {
		res.value = processorShare(settled) - idle // which the node and the pauses of the collector take
	}
	return res, nil
}

// processorShare returns the processor time that the process uses during a time, in percent.
func processorShare(last time.Duration) float64 {
	start, used := time.Now(), processorTime()
	<-time.After(last)
	return 100 * float64(processorTime()-used) / float64(time.Since(start))
}

// heapBytes returns the size of the heap and the stacks after a collection.
func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func redisGet(c *redisConn, w *worker, _ []byte) error { return c.do("GET", w.pick()) }

func redisSet(c *redisConn, w *worker, value []byte) error {
	return c.do("SET", w.keys.take(), string(value))
}

func redisAppend(c *redisConn, _ *worker, value []byte) error {
	return c.do("XADD", topic, "*", "payload", string(value))
}

func redisEnqueue(c *redisConn, w *worker, value []byte) error {
	return c.do("LPUSH", w.queue(), string(value))
}

// redisDeliver is the pattern of a reliable queue: a message moves to a list of the worker until it
// is done.
func redisDeliver(c *redisConn, w *worker, value []byte) error {
	taken := "taken" + strconv.Itoa(w.id)
	return errors.Join(redisEnqueue(c, w, value), c.do("LMOVE", w.queue(), taken, "RIGHT", "LEFT"), c.do("RPOP", taken))
}

// do sends a command and reads its answer, which must not be an error.
func (c *redisConn) do(words ...string) error {
	c.buf = fmt.Appendf(c.buf[:0], "*%d\r\n", len(words))
	for _, word := range words {
		c.buf = fmt.Appendf(c.buf, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := c.Write(c.buf); err != nil {
		return err
	}
	line, err := c.answers.ReadSlice('\n')
	if err != nil || line[0] == '-' {
		return errors.Join(err, fmt.Errorf("redis answers %q to %s", line, words[0]))
	}
	if line[0] != '$' {
		return nil
	}
	size, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	if err == nil && size >= 0 {
		_, err = c.answers.Discard(size + len("\r\n"))
	}
	return err
}

// redisCalls returns the side of Redis for a command.
func (b *bench) redisCalls(callers int, fill bool, call func(c *redisConn, w *worker, value []byte) error) side {
	return func(dir string) (*subject, error) {
		s, r, err := b.openRedis(dir, callers)
		if err != nil {
			return nil, err
		}
		if s.call = func(w *worker) error { return call(r.conns[w.id], w, b.values.cut(w.rng)) }; !fill {
			s.warm = nil
		}
		return s, nil
	}
}
