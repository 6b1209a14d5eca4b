package main

import (
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStreams(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v after\n%s", err, out.String())
	}
	text := out.String()
	for _, want := range []string{
		"ledger: first got 12 records, and dies\nledger: second got nothing\n", "invoices: attempt 1 of bob/3: has no address\n",
		"invoices: attempt 2 of bob/3: has no address\n", "orders.dlq: bob/3, after 2 attempts of group invoices: has no address\n",
		"mail: mail-1 got nothing\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for name, want := range map[string]int{"partition \\d": 12, "mail: mail-\\d got": 12 + 2, "ledger: second got": 12, "stock: ": 12} {
		got := 0
		for _, line := range regexp.MustCompile(name+".*").FindAllString(text, -1) {
			got += strings.Count(line, "/")
		}
		if got != want {
			t.Errorf("%s: %d orders, want %d, in\n%s", name, got, want, text)
		}
	}
	for _, customer := range []string{"ann", "bob", "cyn"} {
		inOrder := regexp.MustCompile(`partition \d: .*` + customer + "/1.*" + customer + "/2.*" + customer + "/3.*" + customer + "/4")
		if !inOrder.MatchString(text) {
			t.Errorf("the orders of %s are not in one partition in order:\n%s", customer, text)
		}
		taken := strings.Join(regexp.MustCompile(`stock: .*`).FindAllString(text, -1), " ")
		if !regexp.MustCompile(customer + "/1.*" + customer + "/2.*" + customer + "/3.*" + customer + "/4").MatchString(taken) {
			t.Errorf("the orders of %s were not taken in order:\n%s", customer, text)
		}
	}
}
