package engine

import (
	"reflect"
	"slices"
)

// Given returns the options that are not nil, and ErrInvalid if one is.
func Given[O any](opts []O) ([]O, error) {
	if i := slices.IndexFunc(opts, isNil); i >= 0 {
		return slices.DeleteFunc(slices.Clone(opts), isNil), Errorf(ErrInvalid, "option %d is nil", i)
	}
	return opts, nil
}

func isNil[O any](opt O) bool {
	v := reflect.ValueOf(opt)
	return !v.IsValid() || v.Kind() == reflect.Func && v.IsNil()
}
