package lint

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPlantedBugsAreLookedFor: each bug that can be planted is one that a test has to find.
func TestPlantedBugsAreLookedFor(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	tables := read("sim/plant_test.go") + read("engine/plant_test.go") + read("../stream/plant_test.go") + read("../ts/plant_test.go") + read("../action/plant_test.go") + read("worker/plant_test.go")
	tables += read("roster/plant_test.go") + read("../kv/plant_test.go") + read("../queue/plant_test.go")
	bugs := regexp.MustCompile(`(?m)^\t(\w+) +Bug = `).FindAllStringSubmatch(read("plant/plant.go"), -1)
	if len(bugs) < 30 {
		t.Fatalf("%d bugs in plant.go, want more", len(bugs))
	}
	for _, b := range bugs {
		if !strings.Contains(tables, "{plant."+b[1]+",") {
			t.Errorf("no test has to find plant.%s", b[1])
		}
	}
}
