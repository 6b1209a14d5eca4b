// Package flow is the language of workflow definitions: it reads them from YAML or JSON, says what
// is wrong with them line by line, and compiles them to what the workflow machine runs. What the
// machine does with a Definition, evaluate templates, conditions, paths and schemas, is a function
// of its arguments alone and the same on every replica and in every build: there is no YAML and no
// expression library in it, and JSON is walked as the bytes that it is.
package flow
