"""Encoding of values of declared types as bytes: for states, staging and answers of tasks.

    document = "kdv1" kind (2 bytes) version (2 bytes) crc32 (4 bytes) size (8 bytes) content
    content  = count, a class number for each object (1 byte each), root, fields of each object

Fixed-size fields are little endian; `size` and the CRC are those of the content. All types are
declared by the reader (`kinds`, `classes`), none by the bytes, which contain no names of classes,
functions or attributes.

    int      1 byte 0x00 to 0xEF: its value - 1
             0xF0: NULL, -(1 << 62)
             0xF1 to 0xF8: 1 to 8 bytes follow, little endian, signed
    bytes,   int: the length, then the bytes; or -1: None; or -2 - n: the nth text, or the nth
    text     bytes, of the document again. A text is UTF-8 with lone surrogates.
    list,    int: the count, then the items
    set, dict
    object   int: the number of an object of the document, or -1: None

An object is a value that others may refer to, also in cycles. Objects are created before any field
is read, and their fields are read one object after the other, so nesting is bounded by the declared
types.

The memory that reading takes is bounded by a constant times the size of the document: each length
and count is checked against the bytes that are left, by the minimum size of an item, before
anything is created. `load` raises EncodingError for anything but a document of the declared kind.
"""
