package engine

import (
	"reflect"
	"sync"
)

// NamespaceOf returns the namespace of a query, which all queries of a single namespace have in a
// field of that name. ok is false for other queries.
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

// subjects maps the type of a query to its namespace field, or nil without one.
var subjects sync.Map

func subjectOf(t reflect.Type) []int {
	for _, name := range []string{"namespace", "Namespace"} {
		if f, ok := t.FieldByName(name); ok && f.Type.Kind() == reflect.String {
			return f.Index
		}
	}
	return nil
}
