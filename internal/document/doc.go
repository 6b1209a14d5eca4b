// Package document reads definitions, YAML or JSON, into nodes that know their lines, and nodes
// into what they define: strictly, in either spelling of keys, with bounds on what a hostile one
// may cost, and with all that is wrong told at once.
package document
