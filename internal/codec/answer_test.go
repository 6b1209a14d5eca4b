package codec

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// answer is a record of the kinds of fields that the results of queries have.
type answer struct {
	Namespace string
	Is        bool
	Read      time.Time
	Note      []byte
	Score     float64
	Mood      mood
	Words     []string
	Added     int64
}

type mood uint8

var moods = []string{"none", "glad", "", "sad"}

func (a *answer) code(f *Fields) {
	f.Namespace(&a.Namespace)
	if !f.Found(&a.Is) {
		return
	}
	f.Time("read_ms", &a.Read)
	f.Blob("note", &a.Note, Range{Max: 4})
	f.Float("score", &a.Score)
	Enum(f, "mood", &a.Mood, moods)
	ListOf(f, "words", &a.Words, Text, Range{Max: 2})
	if f.More(a.Added != 0) {
		f.Varint("added", &a.Added)
	}
}

func someAnswer() answer {
	return answer{
		Namespace: "n", Is: true, Read: time.UnixMilli(1234), Note: []byte{}, Score: math.Copysign(0, -1), Mood: 3, Words: []string{"a",
			""}, Added: 7,
	}
}

func TestAnswerBinary(t *testing.T) {
	for name, change := range map[string]func(a *answer){
		"all":          func(*answer) {},
		"not found":    func(a *answer) { *a = answer{Namespace: "n"} },
		"zero":         func(a *answer) { *a = answer{Is: true} },
		"NaN":          func(a *answer) { a.Score = math.Inf(-1) },
		"earlier form": func(a *answer) { a.Added = 0 },
	} {
		a := someAnswer()
		change(&a)
		b := EncodeFields(nil, &a, (*answer).code)
		var got answer
		if err := DecodeFields(b, &got, (*answer).code); err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("%s: %+v decodes as %+v, %v", name, a, got, err)
		}
		if len(a.Note) > 0 {
			b[5]++
		}
		clear(b)
		if !reflect.DeepEqual(got, a) {
			t.Errorf("%s: what was decoded changes with its source", name)
		}
	}
}

func TestAnswerJSON(t *testing.T) {
	for src, change := range map[string]func(a *answer){
		`{"found":true,"read_ms":1234,"note":"","score":-0,"mood":"sad","words":["a",""],"added":7}`: func(*answer) {},
		`{"found":false}`: func(a *answer) { *a = answer{Namespace: "n"} },
		`{"found":true,"score":0,"mood":"none","words":[],"added":0}`: func(a *answer) {
			*a = answer{Namespace: "n", Is: true,
				Words: []string{}}
		},
		`{"found":true,"read_ms":1234,"note":"/w==","score":"-Inf","mood":"2","words":["a",""],"added":7}`: func(a *answer) {
			a.Note,
				a.Score, a.Mood = []byte{0xff}, math.Inf(-1), 2
		},
	} {
		a := someAnswer()
		change(&a)
		b, _ := AppendJSON(nil, true, a.code)
		if string(b) != src {
			t.Errorf("%+v is shown as %s, want %s", a, b, src)
		}
		if a.Mood == 2 {
			continue // a number without a name does not read back
		}
		got := answer{Namespace: "n"}
		if err := ReadJSON(b, true, got.code); err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("%s reads back as %+v, %v, want %+v", b, got, err, a)
		}
	}
	for src, want := range map[string]string{
		`{"score":"1"}`:     `field "score": want a number, got "1"`,
		`{"score":[]}`:      `field "score": want a number, got []`,
		`{"score":1e999}`:   `field "score": want a number, got 1e999`,
		`{"mood":"angry"}`:  `field "mood": unknown mood "angry": want one of none, glad, sad`,
		`{"mood":""}`:       `unknown mood ""`,
		`{"mood":1}`:        `field "mood": want a string, got 1`,
		`{"read_ms":"now"}`: `field "read_ms": want an integer`,
		`{"words":[1]}`:     `field "words[0]`,
		`{"namespace":"n"}`: `field "namespace": unknown`,
	} {
		a := someAnswer()
		if err := ReadJSON([]byte(src), true, a.code); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
}

func TestAnswerChecked(t *testing.T) {
	for want, change := range map[string]func(a *answer){
		"":                          func(*answer) {},
		"note of 5 bytes exceeds 4": func(a *answer) { a.Note = make([]byte, 5) },
		"unknown mood 2":            func(a *answer) { a.Mood = 2 },
		"unknown mood 4":            func(a *answer) { a.Mood = 4 },
		"3 words are not in 0-2":    func(a *answer) { a.Words = make([]string, 3) },
	} {
		a := someAnswer()
		change(&a)
		if err := CheckFields(&a, true, (*answer).code); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%+v: %v, want %q", a, err, want)
		}
	}
}

func TestAnswerDescribed(t *testing.T) {
	var got []string
	for _, f := range Describe(new(answer).code) {
		got = append(got, describe(f))
	}
	want := "[found boolean read_ms integer since 1970 note bytes 0-4 score number mood string words list 0-2 of ( string) added integer]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
