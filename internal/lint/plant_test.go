package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPlantedBugsAreLookedFor: for each bug that can be planted, a test must find it.
func TestPlantedBugsAreLookedFor(t *testing.T) {
	var tables strings.Builder
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "node_modules":
			return filepath.SkipDir
		case entry.Name() != "plant_test.go":
			return nil
		}
		b, err := os.ReadFile(path)
		tables.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	plants, err := os.ReadFile("../test/plant/plant.go")
	if err != nil {
		t.Fatal(err)
	}
	bugs := regexp.MustCompile(`(?m)^\t(\w+) +Bug = `).FindAllStringSubmatch(string(plants), -1)
	if len(bugs) < 30 {
		t.Fatalf("%d bugs in plant.go, want more", len(bugs))
	}
	for _, b := range bugs {
		if !strings.Contains(tables.String(), "{plant."+b[1]+",") {
			t.Errorf("no test has to find plant.%s", b[1])
		}
	}
}
