"""The rules of style that every lecture and every lab keeps."""
