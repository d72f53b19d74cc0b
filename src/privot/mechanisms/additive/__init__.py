"""Integer noise added to a point on a public grid."""
