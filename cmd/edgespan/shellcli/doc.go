// Package shellcli owns the operator's end of the debug shell: it reads lines, completes them, prints answers, and runs
// scripts over any session.
//
// It never decides what an operation does or who may use it (the daemon does), and never passes a control character of
// the daemon's to the terminal.
package shellcli
