package engine

import (
	"reflect"
	"sync"
)

// NamespaceOf returns the namespace that a query asks about, which is a field of that name in all
// that ask about one; ok is false for a query that is not about a single namespace.
func NamespaceOf(q Query) (namespace string, ok bool) {
	switch q := q.(type) {
	case *NamespaceQuery:
		return q.Name, true
	case *NamespacesQuery:
		return "", false
	}
	v := reflect.ValueOf(q)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return "", false
	}
	v = v.Elem()
	at, known := subjects.Load(v.Type())
	if !known {
		at, _ = subjects.LoadOrStore(v.Type(), subjectOf(v.Type()))
	}
	if index := at.([]int); index != nil {
		return v.FieldByIndex(index).String(), true
	}
	return "", false
}

// subjects holds, by type of query, where its namespace is; nil for one without.
var subjects sync.Map

func subjectOf(t reflect.Type) []int {
	for _, name := range []string{"namespace", "Namespace"} {
		if f, ok := t.FieldByName(name); ok && f.Type.Kind() == reflect.String {
			return f.Index
		}
	}
	return nil
}
