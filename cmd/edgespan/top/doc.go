// Package top owns `edgespan top`: a pure model of what a node's operator looks at first, and the loop that shows it.
//
// It never changes the node, and reads only what the control socket shows to everybody who may open it.
package top
