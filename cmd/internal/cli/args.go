package cli

import (
	"os"
	"strings"
)

// apiKeyFlag is the flag whose value must not appear in process lists.
const apiKeyFlag = "--api-key"

// takeArgs returns the arguments of this process and removes keys from what process lists show. A
// listing taken before that still shows them, so files and the environment are better places for
// keys.
func takeArgs() []string {
	args := make([]string, 0, len(os.Args))
	for _, arg := range os.Args[1:] {
		args = append(args, strings.Clone(arg))
	}
	for i, arg := range os.Args[1:] {
		switch value, joined := strings.CutPrefix(arg, apiKeyFlag+"="); {
		case joined && !strings.HasPrefix(value, "@"):
			erase(value)
		case i > 0 && args[i-1] == apiKeyFlag && !strings.HasPrefix(arg, "@"):
			erase(arg)
		}
	}
	return args
}
