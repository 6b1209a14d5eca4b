package machinetest

// HostileErrors returns, by name, errors whose methods panic. A handler may return them by mistake,
// and they must not harm the calling process.
func HostileErrors() map[string]error {
	return map[string]error{"typed nil": (*hostileText)(nil), "Error": hostileError{}, "Unwrap": hostileUnwrap{}, "Is": hostileIs{},
		"As":                            hostileAs{},
		"Error that panics with itself": hostileSelf{}}
}

type (
	hostileText   struct{ text string }
	hostileError  struct{}
	hostileUnwrap struct{}
	hostileIs     struct{}
	hostileAs     struct{}
	hostileSelf   struct{}
)

func (e *hostileText) Error() string { return e.text }

func (hostileError) Error() string  { panic("hostile Error") }
func (hostileUnwrap) Error() string { return "hostile" }
func (hostileUnwrap) Unwrap() error { panic("hostile Unwrap") }
func (hostileIs) Error() string     { return "hostile" }
func (hostileIs) Is(error) bool     { panic("hostile Is") }
func (hostileAs) Error() string     { return "hostile" }
func (hostileAs) As(any) bool       { panic("hostile As") }

func (e hostileSelf) Error() string { panic(e) }
