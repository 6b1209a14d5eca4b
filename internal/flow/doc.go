// Package flow implements the language of workflow definitions. It reads definitions from YAML or
// JSON, reports their problems by line, and compiles them to the form that the workflow machine
// runs.
//
// The machine evaluates a Definition's templates, conditions, paths and schemas. Each evaluation
// depends only on its arguments, and has the same result on every replica and in every build. So
// the compiled form needs neither YAML nor an expression library, and JSON is processed as raw
// bytes.
package flow
