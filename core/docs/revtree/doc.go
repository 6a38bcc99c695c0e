// Package revtree holds the revision history of one document: which revisions are known, which follow
// from which, and which are leaves. Histories from different servers merge into one tree, in any order
// with the same result, and the same rule picks the same winner everywhere. It is pure computation.
package revtree
